// Package leaserun leases a worker id for another program and runs that program: a generator of ids
// that knows nothing about leases, only its worker id and the wall clock.
//
// The guarantee: while this process runs, and the program's clock differs from this host's by at most
// Margin, the program lives only while the clock is inside the granted window, with Margin to spare at
// both ends. The program and everything that it started are dead before the lease is given back. If
// this process is killed, the kernel kills the program too (Linux only).
//
// Not promised, because the program does not check its window itself:
//
//   - While this process or the machine is frozen, nobody watches the window. A program that runs
//     meanwhile, or is thawed a moment earlier, may issue ids that belong to somebody else by then.
//   - A program may have a clock that is off by more than Margin, issue ids further ahead of the clock
//     than that, or repeat its own ids when the clock goes back. This package does not prevent that.
//   - If this process is killed by SIGKILL, processes that the program started live on, and so does a
//     program that changed its credentials (set-user-ID): the kernel's signal reaches only the process
//     that was started. So start the generator itself. If there is a cgroup, the next Run below the same
//     parent kills them before it asks for a worker id.
//
// # How
//
// A workerid.Keeper holds the lease, and a runner is its only lane. The Keeper uses a clock that a step
// of the wall clock does not reach at once, because what a store is told cannot be taken back. Publish
// offers a window; when the clock is inside it, the program is started, once. From then on three
// goroutines have one task each, so that a blocked log or store delays no other: one forwards signals,
// one looks at the clock and kills, one waits for deaths.
//
// To kill means to kill the program's process group and, where this process may make one (Linux 5.14,
// cgroup v2), the cgroup in which the program was started. Orphans that are in neither become children
// of this process, which kills them after the program.
package leaserun
