// Package workerid keeps worker ids for a daemon. A Store grants windows, ranges of milliseconds in
// which a worker id may be used. A Machine decides what to ask of the Store and when, and a Keeper
// carries that out.
//
// The guarantee: a generator only gets windows that a Store granted to it, and a lease is given back
// only after its generator was sealed. So if the Store keeps its rules, no two generators share a
// worker id and a tick. This does not depend on any clock, nor on an answer arriving in time: a window
// limits which ids may be issued, not when the process may run. Not promised: that a lane always has a
// window to issue from. The states below say when it has one.
//
// # The rules of a Store
//
//   - No window reaches further into the future than the lease length (for a file, the reserve).
//   - A worker id's next window starts above its high-water mark, the largest end that was ever
//     granted. Only what a sealed generator last issued may lower that mark. Records are never deleted.
//   - A holder's window grows without gaps, and only while the Store can tell that no other owner was
//     granted the worker id since.
//   - Whatever a call returns was recorded before the call returns.
//
// # States of a lane
//
// A lane is the slot of one worker id's generator. The state only explains why the lane issues or
// not; the generator enforces its window by itself.
//
//	Acquiring   no worker id yet; asks for one, with growing pauses
//	Waiting     has a window that the clock, run-ahead included, has not reached
//	Serving     issues; the last extension succeeded
//	Degraded    issues; the last extension failed or is unanswered
//	Draining    issues until its window ends; the lease is lost, and the lane asks for another worker id
//	Exhausted   does not issue: its window is over and was not extended so far
//	Sealed      stopped for good; the lease is given back
//
// # How a daemon uses it
//
//	k := workerid.NewKeeper(workerid.Config{
//		Store:     store,                    // static.Open, static.NewEphemeral, ...
//		Lanes:     lanes,                    // makes, lengthens and seals generators
//		Requests:  requests,                 // one for each lane
//		Now:       clock.Now,                // the id clock
//		RunAhead:  time.Second,
//		Heartbeat: static.Heartbeat,
//		CheckTime: layout.CheckTime,
//		Log:       log,
//	})
//	go k.Run(ctx)                                // returns after ctx has ended and all lanes are sealed and released
//	<-k.Serving()                                // closed when the first lane serves: now open the port
//	k.Status()                                   // at any time
package workerid
