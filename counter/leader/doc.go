// Package leader elects, among the daemons of one counter store, the one that issues the values of a
// sequence with order=strict. Each name belongs to one of 16 groups, or of 16 others if it is timestamps, and each
// group has at most one leader at a time.
//
// The guarantee has two halves. Blocks: a leader reserves only while the store says that it leads (the
// fence of a Term), so a value is never issued twice, whatever clocks do. Time: a leader answers a
// request only if the request arrived before Until. No other daemon leads before that moment has passed
// for the old leader, if the clocks of two hosts differ in rate by less than 10 %, and each clock
// counts the time that its host was suspended (CLOCK_BOOTTIME). Not promised: order after the clock of
// a host has stood still, as in a virtual machine that was stopped and whose clock did not notice.
//
// # How it works
//
// A Board holds one key for each group, which says who leads, and one for each daemon, its node key.
// It is written only by atomic changes that compare what is there (Change).
//
//   - Each daemon writes its node key every second, if each group that it leads is still its own. Then
//     it may answer until 0.9 TTL after the moment before that write was sent.
//   - A group is free if no daemon leads it, or if the node key of its leader has not changed for TTL, on
//     the clock of the daemon that wants it, since the answer that first showed this revision. A claim
//     compares both keys, so of two daemons one gets the group, and the old leader none after that.
//   - A daemon that hands a group over first stops answering, then has its blocks sealed and given back,
//     and then writes that no daemon leads, and who is the heir. It never leads on with the same term, even
//     if the answer to that write was lost.
//
// # Why
//
//   - A daemon renews one key, not one for each group: if it is alive, it is alive for all its groups. The
//     renewal compares the keys of all of them, so it extends exactly what is still its own.
//   - A fence does not keep order: it keeps a daemon that was replaced from new blocks, and not from issuing
//     the one that it has. So each answer also asks whether the request arrived before Until.
//   - No lease of etcd's decides who leads. Old versions revoke leases that are kept alive (etcd#15247), and a
//     lease counts time on the clock of etcd's leader.
//   - A watch is only a hint: it may be late, cut off or compacted. What it shows saves a read, as claims and
//     renewals compare anyway.
//   - Groups that are demoted together are handed over together, after up to 10 ms. Else the first one's write
//     is under way when the others are sealed, and each of those waits for one more answer.
//
// A Machine decides all of this, without I/O and without a clock. A Runner drives it over a Board. A
// simulation can do the same: see Machine.
package leader
