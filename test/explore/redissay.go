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
	d := digest{now: began + w.now, boot: w.now, seen: make([]string, 0, 32)}
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
	k := &s.Keys
	history, l := k.Meta("hist"), k.Lease(1)
	d.names(s.Run, s.Replid, history, l.Owner, l.RequestID)
	d.times(k.Time("seen"), k.Time("floor"), k.Time("jump"), millis(l.Ends), l.HighWater, l.Lo)
	d.numbers(s.skew, flags(s.up, s.follows, s.behind, s.Replica, strings.HasPrefix(history, s.Run+":"),
		strings.HasPrefix(history, s.Run+":"+s.Replid+":"), !k.Empty()))
}

func millis(s float64) int64 { return time.Duration(s * float64(time.Second)).Milliseconds() }

func (x *redisDaemon) visit(d *digest, now int64) {
	d.names(x.owner, x.grant.Owner)
	d.names(x.known...)
	d.times(x.grant.Lo, x.grant.Hi)
	d.numbers(int64(x.server), x.due-now, x.offset, flags(x.stopped, x.published))
	x.call.visit(d, now)
}

func (c *redisCall) visit(d *digest, now int64) {
	if c == nil {
		return
	}
	d.numbers(c.at-now, int64(c.server))
	switch {
	case c.acquire != nil:
		d.names(c.acquire.RequestID, c.acquire.Owner, c.acquired.Incarnation)
		d.names(c.acquire.Known...)
		d.times(c.acquire.Now, c.acquired.Lo, c.acquired.Hi)
	case c.extend != nil:
		l := c.extend.Lanes[0]
		d.names(c.extend.RequestID, l.Incarnation, c.extended.Incarnation)
		d.names(l.Known...)
		d.times(c.extend.Now, l.Grant.Lo, l.Grant.Hi)
		for _, r := range c.extended.Results {
			d.Time(r.Grant.Hi)
			d.Text(text(r.Err))
		}
	default:
		d.Name(c.release.RequestID)
		d.times(c.release.Now, c.release.Last)
		d.names(c.release.Known...)
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
