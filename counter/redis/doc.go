// Package redis records sequences in Redis: on one server, behind Sentinels, or in a cluster.
//
// The guarantee: no block is granted twice, though Redis loses writes that it has confirmed (in a
// fail-over, a restart, a crash), if every clock by which Redis grants is within line.MaxSkew of the
// daemons'. It takes replicas=K in Config.URL, the number of all replicas that may be promoted, or that two
// masters never serve at once: where Sentinels or a cluster choose the master, they do, so K is required.
// Not promised: anything after old data was put back into a running Redis, or after all of it was lost and
// an operator has said that it never was there; nor without K, that a replica has a definition or a raise
// that was away when an operator made it. Package line says how.
//
// # How
//
// All sequences of a namespace are fields of one hash, NS:sequences: "=NAME" is a record, "changes" a text
// that is replaced by each Define, Raise and Retire, and "history" the server on which the namespace began.
// A call reads the record and, with it, the server's clock and history; package line decides; and a second
// script writes, if the record and the history are still those that were read. Numbers of 64 bits are more
// than Lua can add.
//
// "replicas" is how many of them must have a grant, and "daemon:ID" what a daemon has learnt of the changes.
//
// Only an operator makes the first record of a namespace, and no daemon writes a record that was lost
// again: a daemon cannot know whether it is new or was forgotten.
package redis
