// Package redismodel is Redis with a pool of worker ids, in memory: what the scripts of package
// script do, in Go, for simulations that need millions of calls, several servers and clocks of
// their own. A test runs the same random calls against it and a real Redis and compares answers and
// keys.
//
// It also holds mutants: scripts with one rule left out, each of which a simulation must find a
// duplicate id with.
package redismodel
