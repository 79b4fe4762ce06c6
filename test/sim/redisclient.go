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

// send sends a call to the master. do is what the server does, and note what the daemon makes of
// it: err is a refusal or says that too few replicas have it; last says that nothing was sent
// since.
func send[T any](c *redisClient, do func(*server) (T, script.Server, error),
	note func(v T, err error, heard, last bool) workerid.Event) request {
	r := c.r
	if c.server == nil {
		c.server = r.master
	}
	s := c.server
	c.calls++
	call := c.calls
	return func(reply func(answer)) {
		r.run(s, func() {
			v, said, err := do(s)
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
			r.wait(s, s.version, said.Needed, r.w.now+waitTimeout, func(have int) {
				if have < said.Needed {
					err = fmt.Errorf("%w: %d of %d replicas have it", workerid.ErrUnconfirmed, have, said.Needed)
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
	return send(c, func(s *server) (script.Acquired, script.Server, error) {
		v, err := s.Server.Acquire(q, c.r.clock(s))
		return v, v.Server, err
	}, func(v script.Acquired, err error, heard, _ bool) workerid.Event {
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
	return send(c, func(s *server) (script.Extended, script.Server, error) {
		v, err := s.Server.Extend(q, c.r.clock(s))
		return v, v.Server, err
	}, func(v script.Extended, err error, heard, last bool) workerid.Event {
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
	return send(c, func(s *server) (any, script.Server, error) {
		said, err := s.Server.Release(q, c.r.clock(s))
		said.Needed = 0 // it does not matter whether anybody has it
		return nil, said, err
	}, func(_ any, err error, _, _ bool) workerid.Event { return workerid.Released{Lane: e.Lane, Err: err} })
}
