// Package chaos runs real daemons over a real Redis, and causes real faults at random: it kills and
// freezes processes, holds and cuts connections and drops their bytes, makes a replica without the
// last writes the master, empties the database, and moves clocks. Clients ask for ids all the time.
// No id may come twice, and after the last fault every daemon must serve again.
//
// The tests have the build tag chaos, because they take minutes (KATSUBUSHI_CHAOS_MINUTES): `make
// chaos`. KATSUBUSHI_SEED repeats the choice of the Redis and most of the choice of faults, but not
// the exact moment at which each one meets the daemons.
//
// Each kind of Redis gets the faults under which docs/REDIS.md promises uniqueness. If grants wait
// for no replica, two masters must not serve at once: the test cuts all daemons off from one master
// before it lets any reach the next. If grants wait for all replicas, it does not, and daemons go
// where their Sentinels send them.
//
// # Running it
//
//	make chaos                                          # a new random run; it prints its seed
//	KATSUBUSHI_SEED=4 make chaos                        # the servers and the faults of seed 4
//	KATSUBUSHI_CHAOS_MINUTES=25 make chaos              # 28 at most: the test times out after 30
//	KATSUBUSHI_CHAOS_LANES=8,8,8,8,8 make chaos         # the lanes of each daemon; default 1,2,1,2
//	for s in 1 2 3 4 5 6 7 8 9; do KATSUBUSHI_SEED=$s make chaos || break; done
//
// It needs Linux and redis-server, etcd or ZooKeeper; clocks can be moved on amd64 only. All servers are its own,
// on loopback and in temporary directories. The seed chooses the servers; nine seeds in a row cover all kinds:
//
//	seed % 9   servers                                                     faults that only this kind has
//	0          a Redis that forgets everything at a restart                FLUSHALL, a key deleted
//	1          a Redis that syncs every write                              its clock far off; all clocks off by the same
//	2          a master, 2 replicas, 3 Sentinels, -redis-replicas 0;       FLUSHALL, a key deleted, fail-overs that lose
//	           a restart forgets                                           writes
//	3          a master, 1 replica, 3 Sentinels, -redis-replicas 1;        clocks as in 1, two masters at once
//	           every write is synced
//	4          a master, 2 replicas, 3 Sentinels, -redis-replicas 2;       as in 3
//	           every write is synced
//	5, 7       3 members of etcd, 3 servers of ZooKeeper                   a majority, or all, killed or stopped
//	6, 8       one etcd, one ZooKeeper                                     an earlier state restored, then lease
//	                                                                       restored; a wipe; daemons' clocks stay right
//
// A fault comes every two seconds for three minutes; then all faults end, and every daemon must serve again. If a run
// found something, run its seed several times. A duplicate ends the run, and is printed with its worker id, its time,
// who issued it again, which processes had the worker id then, and the daemons' last log lines. Otherwise the output
// has the faults, for each daemon how long it issued no ids and why (half the time or more is usual), and "0
// duplicates of N ids".
//
// With KATSUBUSHI_CHAOS_OLD, a revision, half of the fleet begins with that revision's build, and
// every restart of a daemon swaps it for this tree's or back: `make mixed`. There,
// TestStateFilesOfTwoVersions swaps builds on one state directory, and TestSequencesOfTwoVersions has
// daemons of both share the sequences of every kind of counter store.
//
// With KATSUBUSHI_CHAOS_LIBRARY=1, TestLibrary has two daemons and four programs that issue ids themselves, over each
// kind of store in turn, and over state directories: `make chaos-library`. State directories are also put back and
// copied, and their disks stand still. The programs' memory is copied where the store forgets nothing, as with seed 4;
// with seed 1 all but Redis are restored.
package chaos
