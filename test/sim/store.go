package sim

import (
	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/memstore"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

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

// memory is the shortest store that there is. It never loses anything.
type memory struct {
	w    *world
	pool *memstore.Pool
	skew int64 // its clock − time
}

func newMemory(w *world) *memory {
	m := &memory{w: w}
	m.pool = memstore.NewPool(memstore.Config{
		Min: 1, Max: uint64(w.Workers), Lease: lease, Mutant: w.Mutant.ofMemory(),
		Now: func() int64 { return start + w.now + m.skew },
	})
	return m
}

func (m *memory) client(*daemon) client {
	return memoryClient{&memstore.Client{Pool: m.pool, RequestID: m.w.requestID}}
}

func (m *memory) fault() { m.skew = m.w.upTo(2*maxSkew) - maxSkew }

// bridged lets the store be away for less than half a lease.
func (m *memory) bridged() { m.w.unreachable = m.w.now + m.w.upTo(lease/2-timeout) }

func (m *memory) calm() { m.skew = 0 }

type memoryClient struct{ *memstore.Client }

func (c memoryClient) acquire(e workerid.Acquire) request {
	requestID := c.RequestID()
	return func(reply func(answer)) {
		g, err := c.Pool.Acquire(e.Request, requestID)
		reply(func(heard bool) workerid.Event {
			if heard && err == nil {
				c.Acquired(g, requestID)
			}
			return workerid.Acquired{Lane: e.Lane, Grant: g, Err: err}
		})
	}
}

func (c memoryClient) extend(e workerid.Extend) request {
	requests := c.Extending(e.Held)
	return func(reply func(answer)) {
		results := c.Pool.Extend(requests)
		reply(func(heard bool) workerid.Event {
			if heard {
				c.Extended(requests, results)
			}
			return workerid.Extended{Results: results}
		})
	}
}

func (c memoryClient) release(e workerid.Release) request {
	known := c.Releasing(e.Grant)
	return func(reply func(answer)) {
		err := c.Pool.Release(e.Grant, e.Last, known)
		reply(func(bool) workerid.Event { return workerid.Released{Lane: e.Lane, Err: err} })
	}
}

func (c memoryClient) unanswered() {}

func (c memoryClient) clone(*daemon) client { return memoryClient{copied.Of(c.Client)} }
