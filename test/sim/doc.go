// Package sim runs many daemons, for hours, in a fraction of a second: the real lease machine,
// issuer and generators over a store, with clocks that drift and jump, processes that are killed,
// paused and copied, and requests and answers that are late or lost. Everything random comes from
// one seed, so a run that fails is run again by its number.
//
// The store is one in memory, or the model of the scripts inside Redis: several servers with their
// own clocks and asynchronous replication, which fail over, fail back, restart, forget and stall.
//
// Two things are asserted. Uniqueness: no id is issued twice, whatever happens. Availability: once
// the faults are over, everybody issues again; and a run whose only faults are those that a lease
// is there to bridge refuses nothing at all.
//
// What says that the simulation sees anything are the mutants: versions of the design that lack one
// rule each. Each must be found out by the seeds that the ordinary test runs.
package sim
