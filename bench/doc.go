// Command bench measures id servers beside memcached and redis, and aims load at a single server.
//
// # Comparing
//
//	go run ./bench -out bench/RESULTS.md
//
// builds the daemon and starts memcached, redis (Debian's packages) and the daemon with each engine
// on loopback. It pins all servers to one core and itself to another. Then it measures short windows:
// each round visits every mode, and within a mode every server in turn, so that disturbances of the
// machine hit all servers alike. -quick takes seconds and only shows that everything works. -help
// lists the flags for servers, modes, rounds and lengths. -against adds another server that speaks
// memcached's text protocol.
//
// # Reading the table
//
// The figure that survives noise is the server's CPU time per request: what the scheduler charged
// to the server's threads during a window, divided by the answers that arrived in it. The ratio to
// memcached is taken between neighbouring windows of one round, and the median over the rounds is
// shown. Do not compare runs: the placement of caches and cores alone changes results by a third on
// the same machine, and other tenants come and go. Throughput depends on the generator's core as much
// as on the server's. If the generator was busy while the server was often idle, the window is
// marked, and its throughput says nothing about the server.
//
// If other work cannot be stopped, give the benchmark a session with a higher priority (as root, and
// only with the scheduler's autogroups):
//
//	setsid -w sh -c 'echo -20 > /proc/self/autogroup; exec go run ./bench -out bench/RESULTS.md'
//
// The report counts the windows in which something else still ran on the two cores.
//
// Latencies are those of a closed loop: each connection sends its next request after the last answer,
// so p50 at 64 connections is mostly time spent behind the 63 others, in the generator too. They
// compare servers with equal connections, not under equal load.
//
// # Names
//
// The modes of sequences, UUIDs, ULIDs and ObjectIDs ask a daemon that declares those names. "100
// names" modes ask the default key of a daemon that declares a hundred names, to see what names
// cost those who ask for none. The redis beside it counts in memory and writes nothing; a sequence
// is recorded before its values are issued.
//
// The modes of strict order start an etcd of one member (Debian's package) and a daemon that leads; for
// "through a follower" a second daemon, which is the one that is asked. All of them share the servers'
// core, and the CPU time is that of both daemons. The free sequence beside them is one of the same daemon.
//
// kayac's daemon and a bare handler of net/http ("floor http") take part in the mode of HTTP alone. "Beside ten
// scrapes" asks the daemon for /metrics meanwhile; take windows of a second or more, since it collects once a second.
//
// # What is checked
//
// Every byte of every answer, but of an HTTP head only the status and the length. An answer that is not
// exactly what the protocol asks for ends the run and is shown. With -verify all ids of the servers that
// issue them are kept and must differ; a duplicate is planted at the end to see that it would be found.
// That costs the generator several nanoseconds for an id.
//
// # One server
//
//	go run ./bench load -addr 127.0.0.1:11212 -mode pipelined -duration 10s
//
// aims one mode at a server that already runs, for example to watch it under a profiler.
//
// # Limits
//
// It runs on Linux, needs two cores for itself, and has no open-loop load. The TLS modes use
// crypto/tls with one goroutine per connection. The generator then costs more than the server, so
// compare those rows only with each other.
package main
