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
// With KATSUBUSHI_CHAOS_OLD, a revision, half of the fleet begins with that revision's build, and
// every restart of a daemon swaps it for this tree's or back: `make mixed`. There,
// TestStateFilesOfTwoVersions swaps builds on one state directory, and TestSequencesOfTwoVersions has
// daemons of both share the sequences of every kind of counter store.
package chaos
