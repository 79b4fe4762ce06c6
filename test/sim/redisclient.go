package sim

import (
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// redisClient does what workerid/redis does, with the same memory.
type redisClient struct {
	r      *redis
	clock  func() int64 // the daemon's
	memory *script.Memory
	server *server // to which it is connected; nil: it looks for the master next time
	calls  int
}

func (r *redis) client(d *daemon) client {
	return &redisClient{r: r, clock: d.clock, memory: &script.Memory{}}
}

func (c *redisClient) clone(of *daemon) client {
	return &redisClient{r: c.r, clock: of.clock, memory: copied.Of(c.memory)}
}

func (c *redisClient) unanswered() { c.server = nil }

// send sends a call to the master. note is what the daemon makes of the answer: err is a refusal or says
// that too few replicas have it; last says that nothing was sent since.
func (c *redisClient) send(q script.Call, note func(v any, err error, heard, last bool) workerid.Event) request {
	r := c.r
	if c.server == nil {
		c.server = r.master
	}
	s := c.server
	c.calls++
	call := c.calls
	return func(reply func(answer)) {
		r.run(s, func() {
			v, err := s.Carry(q, r.clock(s))
			answered := func(err error) {
				reply(func(heard bool) workerid.Event {
					if errors.Is(err, script.ErrNotMaster) {
						c.server = nil
					}
					return note(v, err, heard, call == c.calls)
				})
			}
			if !s.Replica {
				r.wrote(s)
			}
			if err != nil {
				answered(err)
				return
			}
			needed := 0 // of a release: it does not matter whether anybody has it
			switch v := v.(type) {
			case script.Acquired:
				needed = v.Needed
			case script.Extended:
				needed = v.Needed
			}
			r.wait(s, s.version, needed, r.w.now+waitTimeout, func(have int) {
				if have < needed {
					err = fmt.Errorf("%w: %d of %d replicas have it", workerid.ErrUnconfirmed, have, needed)
				}
				answered(err)
			})
		})
	}
}

func refused(err error) bool { return err != nil && !errors.Is(err, workerid.ErrUnconfirmed) }

func (c *redisClient) acquire(e workerid.Acquire) request {
	q := c.memory.Acquiring(script.Acquire{
		Terms: c.r.terms, Now: c.clock(), RequestID: c.r.w.requestID(), Owner: e.Request.Owner, From: e.Request.Min,
		To: e.Request.Max,
	})
	return c.send(q, func(answer any, err error, heard, _ bool) workerid.Event {
		v, _ := answer.(script.Acquired)
		switch {
		case refused(err):
			c.memory.NotAcquired(q)
		case heard:
			c.memory.Acquired(q, v)
		}
		return workerid.Acquired{Lane: e.Lane, Grant: workerid.Grant{Worker: v.Worker, Owner: q.Owner, Lo: v.Lo, Hi: v.Hi},
			Err: err}
	})
}

func (c *redisClient) extend(e workerid.Extend) request {
	q := c.memory.Extending(script.Extend{Terms: c.r.terms, Now: c.clock(), RequestID: c.r.w.requestID()}, e.Held)
	return c.send(q, func(answer any, err error, heard, last bool) workerid.Event {
		v, _ := answer.(script.Extended)
		switch {
		case refused(err):
			c.memory.NotExtended(q)
			return workerid.Extended{Err: err}
		case heard || last: // answers come in order, even those that nobody waits for
			c.memory.Extended(q, v)
		}
		for i := range v.Results {
			if v.Results[i].Err == nil {
				v.Results[i].Err = err
			}
		}
		if heard {
			c.memory.Heard(q, v)
		}
		return workerid.Extended{Results: v.Results}
	})
}

func (c *redisClient) release(e workerid.Release) request {
	q := c.memory.Releasing(script.Release{Terms: c.r.terms, Now: c.clock(), RequestID: c.r.w.requestID(), Grant: e.Grant,
		Last: e.Last})
	return c.send(q, func(_ any, err error, _, _ bool) workerid.Event {
		return workerid.Released{Lane: e.Lane, Err: err}
	})
}
