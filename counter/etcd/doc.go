// Package etcd records sequences in etcd: one key per sequence, for daemons on any number of hosts.
//
// The guarantee: as long as etcd keeps what a majority of its members has confirmed, no block is
// granted twice, through crashes, pauses, elections, cut networks and lost answers, by any number of
// daemons. No clock is involved. Not promised: anything about an etcd that was restored in place from
// a backup, with the same cluster id and the same members, or about one that was wiped while no daemon
// ran that had used it. Raise is for both.
//
// # The keys
//
//	/PREFIX/NS/seq/NAME    the record of a sequence, see record.go
//	/PREFIX/NS/daemons/ID  what a daemon has learnt of the changes, for operators
//	/PREFIX/NS/changes     a text that is replaced when a sequence is defined, raised or retired
//	/PREFIX/NS/leader/GG   who leads a group of sequences with order=strict, see board.go
//	/PREFIX/NS/leader/groups  how many of these there are
//	/PREFIX/NS/leader-time/GG  who leads a group of timestamps. Releases that know none read neither this nor:
//	/PREFIX/NS/stamp/ID    the time of day of a daemon
//	/PREFIX/NS/time-node/LAYOUT/N  the name of the timestamps that have this node
//	/PREFIX/NS/node/ID     a daemon that takes part in the election
//
// PREFIX is katsubushi, unless the URL has a path. Every write is one transaction: if the key still
// has the revision and the text that were read, put the new record. So of two daemons that have read
// the same record, one writes, and the other one reads again.
//
// # Leaders
//
// Package leader says how daemons agree who issues a sequence with order=strict; a Store is its Board.
// Only the Store that Within returns grants values of such a sequence: each of its writes compares the
// group's key. No lease of etcd's is used.
//
// # Foreign records
//
// A record names its key, the cluster that it was written in, and its birth, a random text that never
// changes. So it is noticed if it was copied to another namespace or another cluster, as etcdctl
// snapshot restore makes one. A Store remembers the birth, and the largest value that it was granted.
// So a daemon notices if etcd was wiped or set back under it. All of that is counter.ErrForeign until
// an operator has said with Raise which values are free.
//
// # Answers that do not come
//
// An attempt ends after Config.Timeout. Reserve then returns counter.ErrUnavailable, and the block may
// have been granted: it is a gap. The other calls try again until their context ends, and recognise
// their own write by its token.
package etcd
