// Package client gets ids from katsubushi daemons. Goroutines that call ID at the same time share one
// request, so a thousand of them cost little more than one.
//
//	ids, err := client.New(client.DNS("ids.example:11212"), client.Config{})
//	...
//	defer ids.Close()
//	id, err := ids.ID(ctx)
//
// # What is promised
//
// A call returns (0, err) or (not 0, nil), at its context's deadline at the latest, whatever the server
// does. No id is given to two callers, and that of a caller who left is given to none. An answer that is
// not exactly what was asked for is not used. Not promised: that every id that a daemon issued reaches a
// caller.
//
// # Order
//
// The ids that one goroutine gets increase as long as one server with one lane answers, with and without
// Config.Prefetch. Ids of several servers are in order up to the difference of their clocks; with Prefetch,
// ids of several clients up to MaxAge as well.
//
// # Failures
//
// A request that a server does not answer, or refuses with SERVER_ERROR, goes to the next server. A call
// fails when each server has failed it once. It waits for a server that is left alone after a failure if
// there is no other; so give every call a deadline.
package client
