// Package workerid keeps worker ids for a daemon: a Store grants windows of id-time, a Machine decides what to ask of it and when, a
// Keeper carries that out.
//
// The guarantee: a generator is only ever given windows that a Store granted it, and a lease is only given back after its generator
// was sealed; so if the Store keeps its rules, no two generators share a worker id and a tick. Nothing of this depends on a clock or
// on an answer coming in time: a window is a set of ids, not a span in which the process is allowed to run. What is not promised:
// that there is always a window to issue from. That is what the states are about.
//
// # The rules of a Store
//
//   - No window reaches further into the future than the lease length (the reserve, of a file).
//   - A worker id's next window starts above every end that was ever granted, or above what a sealed generator reported. Marks are
//     never lowered otherwise, and records never deleted.
//   - A holder's window grows contiguously, and only while the store can tell that nobody else was granted the worker id since.
//   - What a call returns is recorded before it returns.
//
// # States of a lane
//
// A lane is a slot for one worker id's generator. Its state says why it issues or not; the generator enforces it by itself.
//
//	Acquiring   no worker id yet: asking for one, with growing pauses
//	Waiting     has a window that the clock, run-ahead included, has not reached
//	Serving     issues; the last extension succeeded
//	Degraded    issues; the last extension failed or is unanswered
//	Draining    issues to the end of its window, which cannot be extended any more; asking for another worker id
//	Exhausted   does not issue: its window is over, and extending it fails so far
//	Sealed      given back, for good
//
// # How a daemon uses it
//
//	k := workerid.NewKeeper(workerid.Config{
//		Store:     store,                    // static.Open, static.NewEphemeral, ...
//		Lanes:     lanes,                    // the consumer: makes, lengthens and seals generators
//		Requests:  requests,                 // one for each lane
//		Now:       clock.Now,                // the id clock
//		RunAhead:  time.Second,
//		Heartbeat: static.Heartbeat,
//		CheckTime: layout.CheckTime,
//		Log:       log,
//	})
//	go k.Run(ctx)                                // returns once ctx has ended and every lane is sealed and released
//	<-k.Serving()                                // closed when the first lane serves: time to open the port
//	k.Status()                                   // at any time
package workerid
