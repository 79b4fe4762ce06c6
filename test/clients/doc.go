//go:build linux

// Command clients runs memcached, Redis and gRPC clients, as people have them installed, against the
// daemon: libraries in nine languages, proxies, web servers and monitors, in the text, the meta and
// the binary protocol.
//
//	go run ./test/clients                 # all of setups.txt
//	go run ./test/clients -only 'php|perl'
//	go run ./test/clients -examples       # the programs of examples/ instead
//
// It installs what the set-ups need (Debian packages, npm packages, Go modules), starts the daemon
// on free loopback ports with the arguments in KATSUBUSHI_ARGS added, and runs one set-up after the
// other. Each is a short program in its own language, written as a user would write it, that knows
// nothing of ids: it prints what its client returned, one thing a line, and this command checks it.
//
//	get VALUE              one get
//	gets VALUE CAS         one get with its cas
//	multi VALUE VALUE ...  one multi-get
//	incr VALUE             the next value of the sequence orders
//	incrby VALUE N         the last of N values
//	exec VALUE COUNT       a transaction of one get and one value of orders
//	version N.N.N          the daemon's version as the client reports it
//	stat NAME VALUE        one statistic as the client or monitor reports it
//	group NAME N           a group of statistics had N lines
//	health NAME STATUS     what a health check said
//
// Checked of every id: never seen before, greater than every id that the set-up got before, made by
// worker id 1, made now. Checked of every set-up: that it ends in time with status 0 and did all
// that setups.txt says it does.
//
// Clients of a Redis cluster also run against three daemons on an etcd, which issue sequences in strict
// order. Meanwhile leaders are demoted and killed; follow.go says what such a client prints, and what is
// checked.
//
// One line per set-up says PASS, FAIL or SKIP; SKIP means that a package cannot be installed here,
// which is a FAIL if KATSUBUSHI_REQUIRE is 1, unless the set-up is marked optional. The last line
// counts them, and the exit status is 1 if anything failed.
package main
