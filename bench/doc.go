// Command bench measures id servers beside memcached and redis, and aims load at a single server.
//
// # Comparing
//
//	go run ./bench -out bench/RESULTS.md
//
// builds the daemon, starts memcached and redis (as Debian packages them) and the daemon with each
// engine on loopback, pins every server to one core and itself to another, and then goes through
// short windows: every round visits every mode, and within a mode every server in turn, so that
// whatever the machine does to one server it does to its neighbours too. -quick is the same in
// seconds, good for nothing but seeing that it works. -help lists the flags that choose servers,
// modes, rounds and lengths; -against adds any other server that speaks memcached's text protocol.
//
// # Reading the table
//
// The figure that survives noise is the server's CPU time per request: what the scheduler charged
// to the server's threads during a window, divided by the answers that arrived in it. The ratio to
// memcached is taken between neighbouring windows of one round, and the median over the rounds is
// shown. Compare nothing across runs: the same machine moves between placements of caches and cores
// that are a third apart, and its other tenants come and go. Throughput depends on the generator's
// core as much as on the server's; a window in which the generator had hardly an idle moment while
// the server's core had many is marked, and its throughput says nothing about the server.
//
// Where other work cannot be stopped, a session of its own can be preferred to it (as root, and
// only with the scheduler's autogroups):
//
//	setsid -w sh -c 'echo -20 > /proc/self/autogroup; exec go run ./bench -out bench/RESULTS.md'
//
// The report counts the windows in which something else ran on the two cores all the same.
//
// Latencies are those of a closed loop: each connection sends its next request when the last one is
// answered, so p50 at 64 connections is mostly the time in 63 other queues, the generator's own
// among them. They compare servers under equal connections, not under equal load.
//
// # Names
//
// The modes of sequences, UUIDs, ULIDs and ObjectIDs ask a daemon that declares those names. "100
// names" modes ask the default key of a daemon that declares a hundred names, to see what names
// cost those who ask for none. The redis beside it counts in memory and writes nothing; a sequence
// is recorded before its values are issued.
//
// # What is checked
//
// Every byte of every answer. An answer that is not exactly what the protocol asks for ends the run
// and is shown. With -verify all ids of the servers that issue them are kept and must differ; a
// duplicate is planted at the end to see that it would be found. That costs the generator several
// nanoseconds for an id.
//
// # One server
//
//	go run ./bench load -addr 127.0.0.1:11212 -mode pipelined -duration 10s
//
// aims one mode at a server that already runs, for example to watch it under a profiler.
//
// # Limits
//
// It runs on Linux, wants two cores to itself, and does no open-loop load. The TLS modes go through
// crypto/tls, one goroutine for each connection; the generator then costs more than the server, and
// the rows compare only with each other.
package main
