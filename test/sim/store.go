package sim

import "github.com/katsubushi/katsubushi/v3/workerid"

// A store is where worker ids are leased, with what can go wrong there.
type store interface {
	client(*daemon) client
	fault()   // lets something go wrong
	bridged() // lets something go wrong that a lease is there to bridge
	calm()    // mends everything
}

// A client is a daemon's side of a store. It makes requests, and remembers what it must know of them.
type client interface {
	acquire(workerid.Acquire) request
	extend(workerid.Extend) request
	release(workerid.Release) request
	unanswered() // a request got no answer in time
	clone(copied *daemon) client
}

// A request is what the store does when it arrives. It replies once, at once or later, or never.
type request func(reply func(answer))

// An answer is what the daemon makes of a reply when it arrives. It is not heard if the daemon no
// longer waits for it.
type answer func(heard bool) workerid.Event
