package explore

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// This file has the calls of daemons to Redis, and what becomes of their answers.

// silent is what a daemon does that had no answer in time.
func (d *redisDaemon) silent(now int64) {
	d.server, d.due = -1, now+timeout
	d.learn()
}

// ask makes the request of a daemon that is due.
func (w *redis) ask(i int) *redisCall {
	d := w.daemons[i]
	d.memory = copied.Of(d.memory)
	c := &redisCall{daemon: i, server: w.connected(d)}
	t, now, id := w.terms(), began+w.now+d.offset, w.request()
	if d.grant.Owner == "" {
		q := d.memory.Acquiring(script.Acquire{Terms: t, Now: now, RequestID: id, Owner: d.owner, From: 1, To: 1})
		c.acquire = &q
	} else {
		q := d.memory.Extending(script.Extend{Terms: t, Now: now, RequestID: id}, []workerid.Grant{d.grant})
		c.extend = &q
	}
	return c
}

func (c *redisCall) call() script.Call {
	switch {
	case c.acquire != nil:
		return *c.acquire
	case c.extend != nil:
		return *c.extend
	}
	return *c.release
}

// carryOut is what the server makes of a request.
func (w *redis) carryOut(c *redisCall) {
	c.answered = true
	if !w.servers[c.server].up {
		c.err = errLate
		return
	}
	answer, have, err := w.at(c.server, c.call())
	needed := 0
	switch v := answer.(type) {
	case script.Acquired:
		c.acquired, needed = v, v.Needed
	case script.Extended:
		c.extended, needed = v, v.Needed
	}
	if c.err = err; err == nil && have < needed && !w.heedless {
		c.err = workerid.ErrUnconfirmed
	}
}

// answer is what a daemon makes of an answer, as a Store and a Machine do.
func (w *redis) answer(i int, c *redisCall) {
	d := w.daemons[i]
	d.memory, d.due = copied.Of(d.memory), w.now+redisBeat
	var r script.Refusal
	refused := errors.As(c.err, &r)
	unconfirmed := errors.Is(c.err, workerid.ErrUnconfirmed)
	switch {
	case c.err != nil && !unconfirmed:
		if refused && c.acquire != nil {
			d.memory.NotAcquired(*c.acquire)
		} else if refused {
			d.memory.NotExtended(*c.extend)
		}
		if again := r.RetryAfter().Milliseconds(); again > 0 {
			d.due = min(d.due, w.now+again+1)
		}
		if !refused || errors.Is(c.err, script.ErrNotMaster) {
			d.server, d.due = -1, w.now+redisRetry
		}
	case c.acquire != nil:
		d.memory.Acquired(*c.acquire, c.acquired)
		d.grant = workerid.Grant{Worker: c.acquired.Worker, Owner: d.owner, Lo: c.acquired.Lo, Hi: c.acquired.Hi}
		if d.published = !unconfirmed; unconfirmed {
			d.grant.Hi = d.grant.Lo - 1
		} else {
			w.publish(i)
		}
	default:
		d.memory.Extended(*c.extend, c.extended)
		w.extended(i, c, unconfirmed)
	}
	if unconfirmed {
		d.server, d.due = -1, w.now+redisRetry
	}
	d.learn()
}

// extended is what a daemon makes of the answer to an extension.
func (w *redis) extended(i int, c *redisCall, unconfirmed bool) {
	d, r := w.daemons[i], c.extended.Results[0]
	if unconfirmed && r.Err == nil {
		r.Err = c.err
	}
	d.memory.Heard(*c.extend, script.Extended{Server: c.extended.Server, Results: []workerid.Result{r}})
	switch {
	case errors.Is(r.Err, workerid.ErrCloned):
		d.stopped = true
	case errors.Is(r.Err, workerid.ErrLost):
		d.grant, d.due = workerid.Grant{}, w.now+50
	case r.Err != nil:
	case !d.published:
		d.grant.Hi, d.published = r.Grant.Hi, true
		w.publish(i)
	default:
		d.grant.Hi = max(d.grant.Hi, r.Grant.Hi)
		lengthen(w.windows, i, d.grant.Worker, d.grant.Lo, d.grant.Hi)
	}
}

func (w *redis) publish(i int) {
	d := w.daemons[i]
	w.windows = append(w.windows, window{d.grant.Worker, d.grant.Lo, d.grant.Hi, d.grant.Lo - 1, i, 0, 0})
}

// learn notes what a memory has.
func (d *redisDaemon) learn() {
	m := copied.Of(d.memory)
	d.known = m.Acquiring(script.Acquire{Owner: d.owner}).Known
	if d.grant.Owner != "" {
		l := m.Extending(script.Extend{}, []workerid.Grant{d.grant}).Lanes[0]
		d.known = append(append(d.known, "", l.Incarnation), l.Known...)
	}
}
