// Package chaos runs real daemons over a real Redis with replicas and Sentinels, and lets real faults happen to both at random: processes
// are killed and frozen, connections held, cut and robbed of their bytes, a master dies and a replica takes its place, the database is
// emptied, a clock jumps. Clients ask for ids all the time, and no id may come twice. The test has the build tag chaos, since it takes
// minutes: `make chaos`. KATSUBUSHI_CHAOS_MINUTES says how many, KATSUBUSHI_SEED repeats the choice of faults (not the exact moment at
// which each meets the daemons, which is up to the machine).
//
// The pool counts no replicas (-redis-replicas 0), so that fail-overs really lose writes; that is part of the promise. Two masters that
// serve at once are not: each daemon reaches Redis through a proxy of its own, and all proxies turn to a new master together.
package chaos
