// Package chaos runs real daemons over a real Redis, and lets real faults happen to both at random:
// processes are killed and frozen, connections held, cut and robbed of their bytes, a master dies
// and a replica takes its place without its last writes, the database is emptied, clocks jump.
// Clients ask for ids all the time, and no id may come twice; after the last fault every daemon
// must serve again. The test has the build tag chaos, since it takes minutes: `make chaos`.
// KATSUBUSHI_CHAOS_MINUTES says how many. KATSUBUSHI_SEED repeats the choice of the Redis and
// largely that of the faults, not the exact moment at which each meets the daemons, which is up to
// the machine.
//
// Faults are those under which docs/REDIS.md promises uniqueness, each kind of Redis its own. Where
// grants wait for no replica, two masters must not serve at once: there the ways of all daemons to
// a master are shut before those to the next one are opened. Where they wait for all of them,
// nobody does that, and daemons are where their Sentinels send them.
package chaos
