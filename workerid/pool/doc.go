// Package pool holds the rules of a pool of worker ids in a store that offers a linearizable
// compare-and-set over several small records, such as ZooKeeper or etcd. It is pure: it does no I/O
// and reads no clock. Package cas carries the rules out.
//
// The guarantee: windows of one worker id never overlap, whatever clocks, pauses, lost answers and
// expired sessions do. It also holds after an operator restores an earlier state of the store, if a
// holder reaches the store afterwards, or an operator says so before daemons are let in. Not
// promised: a restore that loses no more than the last W (see C1); a restore without that word while
// no holder reaches the store; a clock that is wrong by more than the maximum skew around a restore;
// a copy of a process that gives a lease back.
//
// # Records
//
//	meta      1 EPOCH FLOOR FINGERPRINT LEASE EPSILON MIN MAX
//	record    1 MARK LO TOKEN OWNER          one for each worker id, never deleted
//	presence  1 OWNER ADDRESS                gone when its daemon's session is
//
// MARK is the high-water mark: the end of the largest window that was granted. LO is the start of the
// holder's window, TOKEN the request id of the last write. OWNER is - after a release. FLOOR is below
// every window that newcomers get. EPOCH is another one whenever the store may have forgotten grants.
//
// Presence says who may be asked to make room, the record says who is right. A presence that is gone
// lets a newcomer try; the record, compared with each write, makes the windows disjoint.
//
// # The rules
//
// H is the heartbeat, T the time-out of a call, W = 1.1 H + 2 T. Within W every holder that reaches
// the store has looked at its record and has said in meta if that was rolled back. Times between
// events are read from a clock that cannot be set.
//
//   - C1 Watch. A newcomer, and a lane whose last acknowledged write was sent more than W ago, first
//     watches: it reads meta and all records, waits W and reads again. Both readings and the write
//     that follows go over one connection. If that breaks, or meta changes, the watch starts over. A
//     holder judges the first reading already, and raises at once.
//   - C2 Acquire. A record that did not change during the watch, without presence, and whose mark is
//     not beyond the present + L + the maximum skew. Meta and record are compared. The window starts
//     at max(mark, floor) + 2. It is empty, a reservation, as long as that lies in the future.
//   - C3 Extend. Meta and record are compared. The mark becomes the present + L, and never less. If
//     they differ: a write of our own without an answer is gone on from. A stranger's token above our
//     window means that the lease is lost. Our owner with a token that this process never sent means
//     that a copy of it runs. Anything else was rolled back.
//   - C4 Raise. A holder that was rolled back writes a new epoch into meta, and a floor above all windows
//     that may have been forgotten. It repeats that until it is done, or another one has done it since
//     it noticed: meta has changed over the same connection, or the floor is as high as only a raise
//     within the last second makes it. It looks after the floor as long as it uses the rest of its
//     windows, and never takes the worker id back.
//   - C5 Release. After sealing, within W of the last acknowledged write: mark = what was last
//     issued, and no owner.
//   - C6 Skew. A record that moved during the watch was written at its mark − L by its holder's
//     clock. A newcomer whose clock differs from the median of these gets nothing. One is enough: it
//     does not matter which clock is wrong, but that a floor that one holder raises after a restore
//     (present + L + epsilon) covers the windows of all others.
//
// # Holes that were found, and mended here
//
//   - W was counted from the answer to the last write. A slow answer, up to T, let a holder skip its
//     watch although a newcomer's watch had fitted between the write and now. W now counts from when
//     the write was sent.
//
//   - A process that is stopped between looking at the clock and sending its write may send it an hour
//     later, over a connection that its library has made since. So each write names the connection
//     for which the time was checked, and a driver refuses it on another one.
//
//   - "Within W of an acknowledged call" is true of a lane, not of a daemon: a sibling's acquisition
//     says nothing about a record that it did not compare.
//
//   - lo = mark + 1 made an empty reservation that a restore can undo without any mark going back. Its
//     holder then took the earlier holder for a later one, and no longer bore witness for others.
//
//   - A presence outlives its lease: of a lost one, or when an operator ended it. It barred all others
//     for as long as the daemon's session lived. A presence counts only if its owner is the record's,
//     and a daemon deletes those of leases that it has lost.
//
//   - C6 compared records that moved. A mark stays where a clock that went back has left it, while
//     heartbeats move the record: so only marks that moved count.
//
//   - C3's retries after a watch waited for the next heartbeat. They come when the watch is over now,
//     and the first reading does not wait for a heartbeat either. What a lease bridges is shorter than
//     L − W − 1.1 H − T by the run-ahead, for a daemon that issues as fast as it can.
//
//   - A lost answer to an acquisition may only be adopted while no later acquisition of the same owner
//     was acknowledged; after a restore the record may show it again, issued from long ago.
//
//   - A record that is missing was not in the answer to a refused commit, and counted as not compared.
//     Its holder tried again and again, and raised nothing.
//
//   - Looking after the floor took two calls before the raise, when both meta and a record had gone
//     back. That is more than W allows; so a floor that went down is raised at once.
//
//   - A grant whose answer came too late for the daemon kept its presence, so that no other daemon
//     got the worker id. It is dropped after W, and still bears witness until its window is over.
//
// An epoch need not be unique, only different from the one before: a daemon that compares it has found
// its own last write, so every state that it may see comes after that.
//
// Not mended: the floor that an operator asks for after a restore is above the present + L + ε and all
// marks that can be read. A window that a wrong clock has made longer is not covered, if its holder does
// not reach the store.
package pool
