// Package leader elects, among the daemons of one counter store, the one that issues the values of a
// sequence with order=strict. Each name belongs to one of 16 groups, and each group has at most one
// leader at a time.
//
// The guarantee has two halves. Blocks: a leader reserves only while the store says that it leads (the
// fence of a Term), so a value is never issued twice, whatever clocks do. Time: a leader answers a
// request only if the request arrived before Until. Nobody else leads before that moment has passed
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
//   - A group is free if nobody leads it, or if the node key of its leader has not changed for TTL, on
//     the clock of the daemon that wants it, since the answer that first showed this revision. A claim
//     compares both keys, so of two daemons one gets the group, and the old leader none after that.
//   - A daemon that hands a group over first stops answering, then has its blocks sealed and given back,
//     and then writes that nobody leads, and who is the heir. It never leads on with the same term, even
//     if the answer to that write was lost.
//
// A Machine decides all of this, without I/O and without a clock. A Runner drives it over a Board. A
// simulation can do the same: see Machine.
package leader
