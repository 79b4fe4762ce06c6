// Package explore runs every schedule of small worlds, with the code that ships: not some orders of events,
// as package sim does, but all of them up to a bound. Random walks over the same worlds have any number of faults.
//
// A world is a deterministic function of a list of choices. The choice that costs nothing is what happens
// when all goes well. Others cost a fault or a preemption, and the bound says how many of each a schedule may
// have. Explore goes depth first, by cloning, and does not visit a state again that it has visited with at
// least as much left of the bound and of the time. It knows states by 64 bits: two of ten million states are
// taken for one with a probability of one in 400,000.
//
// The world of Redis runs the scripts in a real one, which is skipped where there is none.
//
// A seed gives one walk. At the end of one daemons must serve again, where a world says whether they do.
//
// Not guaranteed: anything beyond the bound, and between times or kinds of fault that a world does not have. Not
// simulated: engines, so where a request's moment is read; package daemon.
package explore
