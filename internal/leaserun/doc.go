// Package leaserun runs another program with a worker id that it leases for it: a generator of ids that knows nothing of leases, only its
// worker id and the wall clock.
//
// The guarantee: as long as this process runs and the program's clock is this host's to within Margin, the program lives only while the
// clock is inside the window that was granted, by Margin on either side; it, and all that it started, are dead before the lease is given
// back. If this process is killed, the kernel kills the program with it (Linux only).
//
// What is not promised, since the program does not look at its window itself:
//
//   - while this process, or the machine, is frozen nobody watches the window. A program that goes on meanwhile, or is thawed a moment
//     earlier, may issue ids that are somebody else's by then;
//   - a program whose clock is off by more than Margin, that issues ids further ahead of the clock, or that repeats ids by itself when the
//     clock goes back, does so here too;
//   - when this process is killed by SIGKILL, processes that the program started live on, and so does a program that changed its
//     credentials (set-user-ID): the kernel's signal reaches only the process that was started. Let that be the generator itself. If there
//     is a cgroup, the next Run below the same one kills them before it asks for a worker id.
//
// # How
//
// A workerid.Keeper holds the lease, by a clock that no step of the wall clock reaches at once, since what a store is told cannot be taken back; a runner is its one lane. Publish offers a window, and once the clock is inside it the program is
// started, once. From then on three goroutines have one task each, so that a log that blocks, or a store, delays no other: one forwards
// signals, one looks at the clock and kills, one waits for deaths.
//
// Killed is the program's process group and, where this process may make one (Linux 5.14, cgroup v2), the cgroup that the program was born
// into. Orphans that are in neither become children of this process, which kills them after the program.
package leaserun
