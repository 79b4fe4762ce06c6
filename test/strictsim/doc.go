// Package strictsim runs sequences of strict order in a simulated world: leader.Machine, counter.Machine,
// issuer.Strict with its forwarding, and generator.Sequence of three daemons over a model of etcd.
//
// Their clocks run up to 5 % too fast or too slow. They are killed, stopped, and stand still at any step,
// as processes or as single threads: between reading the clock and taking a value, between that and the
// answer, while a renewal is under way, while a group is handed over. Requests and answers of etcd are
// lost, late or repeated; it is away, or cannot be reached from one host. Groups are demoted.
//
// The guarantee: one seed gives one run. A run checks that no value is issued twice, that each is one of
// the sequence, that values rise in strict order (package order), and that all is served again soon after
// the faults have ended. The mutants leave out one rule each; the tests show that a run notices. Not
// simulated: sessions and engines, so where a request's moment is read; package daemon.
package strictsim
