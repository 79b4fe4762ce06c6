// Package client gets ids from katsubushi daemons: a thousand goroutines that call ID at once share one
// request.
//
//	c, err := client.New(client.DNS("ids.example:11212"), client.Config{})
//	defer c.Close()
//	id, err := c.ID(ctx)
//
// Promised: a call returns (0, err) or (not 0, nil), at its context's deadline at the latest. No id is
// given to two callers, and that of a caller who left to none. An answer that is not exactly what was
// asked for is not used. Not promised: that every id that a daemon issued reaches a caller.
//
// Order: the ids that one goroutine gets increase as long as one server with one lane answers, with and
// without Config.Prefetch. Ids of several servers are in order up to the difference of their clocks.
package client
