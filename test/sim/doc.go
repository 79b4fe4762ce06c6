// Package sim runs many daemons, for hours, in a fraction of a second: the real lease machine,
// issuer and generators over a store, with clocks that are wrong and jump, processes that are killed,
// paused and copied, and requests and answers that are late or lost. Everything random comes from
// one seed, so a run that fails is run again by its number.
//
// The store is one that compares and sets, in memory, which daemons use by the real package cas.
// Other stores are in the worlds of package explore.
//
// It asserts two things. Uniqueness: no id is issued twice, whatever happens. Availability: after
// the faults every daemon issues again, and if all faults are of the kind that a lease bridges, no
// request is refused.
//
// Mutants show that the simulation detects faults: each is the design without one of its rules, and
// the seeds of the ordinary test must find it out.
package sim
