package explore

import (
	"strings"
	"time"
)

// use notes up to where daemons may have issued ids by now.
func (w *redis) use() {
	use(w.windows, func(i int) int64 { return began + w.now + w.daemons[i].offset })
	w.apart(w.windows)
	for _, x := range w.windows { // a floor is a lease and the margin for clocks ahead
		if x.hi > began+w.now+2*(lease+epsilon) {
			w.wrong = "a window reaches too far into the future"
		}
	}
}

// Digest implements World.
func (w *redis) Digest() uint64 {
	d := digest{now: began + w.now, boot: w.now, names: make([]string, 0, 32)}
	d.Number(int64(w.master))
	for i := range w.servers {
		w.servers[i].visit(&d)
	}
	for _, x := range w.daemons {
		x.visit(&d, w.now)
	}
	w.late.visit(&d, w.now)
	visitWindows(w.windows, &d)
	return d.h
}

func (s *redisServer) visit(d *digest) {
	d.Name(s.Run)
	d.Name(s.Replid)
	d.Number(s.skew)
	m := s.Keys.Meta
	d.Number(flags(s.up, s.follows, s.behind, s.Replica, strings.HasPrefix(m.Incarnation, s.Run+":"),
		strings.HasPrefix(m.Incarnation, s.Run+":"+s.Replid+":"), len(s.Keys.IDs) > 0))
	d.Name(m.Incarnation)
	for _, t := range []int64{m.Seen, m.Floor, m.Jump, millis(s.Keys.IDs[1])} {
		d.Time(t)
	}
	d.Name(s.Keys.Clients[1])
	r, there := s.Keys.HighWater[1]
	if there {
		d.Time(r.HighWater)
		d.Name(r.RequestID)
		d.Time(r.Lo)
	}
}

func millis(s float64) int64 { return time.Duration(s * float64(time.Second)).Milliseconds() }

func (x *redisDaemon) visit(d *digest, now int64) {
	d.Name(x.owner)
	for _, name := range x.known {
		d.Name(name)
	}
	d.Number(int64(x.server))
	d.Name(x.grant.Owner)
	d.Time(x.grant.Lo)
	d.Time(x.grant.Hi)
	d.Number(x.due - now)
	d.Number(x.offset)
	d.Number(flags(x.stopped, x.published))
	x.call.visit(d, now)
}

func (c *redisCall) visit(d *digest, now int64) {
	if c == nil {
		return
	}
	d.Number(c.at - now)
	d.Number(int64(c.server))
	switch {
	case c.acquire != nil:
		d.Time(c.acquire.Now)
		d.Name(c.acquire.RequestID)
		d.Name(c.acquire.Owner)
		for _, k := range c.acquire.Known {
			d.Name(k)
		}
		d.Time(c.acquired.Lo)
		d.Time(c.acquired.Hi)
		d.Name(c.acquired.Incarnation)
	case c.extend != nil:
		l := c.extend.Lanes[0]
		d.Time(c.extend.Now)
		d.Name(c.extend.RequestID)
		d.Name(l.Incarnation)
		d.Time(l.Grant.Lo)
		d.Time(l.Grant.Hi)
		for _, k := range l.Known {
			d.Name(k)
		}
		d.Name(c.extended.Incarnation)
		for _, r := range c.extended.Results {
			d.Time(r.Grant.Hi)
			d.Text(text(r.Err))
		}
	default:
		d.Time(c.release.Now)
		d.Name(c.release.RequestID)
		d.Time(c.release.Last)
		for _, k := range c.release.Known {
			d.Name(k)
		}
	}
	d.Text(text(c.err))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Say implements World.
func (w *redis) Say(c Choice) string {
	i, _ := w.first()
	call := "a request that nobody waits for arrives"
	if i >= 0 {
		d, what := w.daemons[i], "extends its lease"
		switch {
		case d.call != nil:
			what = "goes on with a call"
		case d.grant.Owner == "":
			what = "asks for a worker id"
		}
		call = "daemon " + d.owner + " " + what
	}
	return say("redis", c, "WHO", "daemon "+w.daemons[c.Who].owner, "CALL", call, "REQUEST", "the request",
		"LATER", nextEvent, "LONG", span(timeout+redisBeat/4), "SPAN", span(redisPauses[c.Arg]), "SKEW", span(skew/2),
		"SERVER", serverName(int(c.Who)))
}
