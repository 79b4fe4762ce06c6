package explore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

var (
	errLate  = errors.New("no answer in time")
	errWaits = errors.New("the call waits") // its session is thrown away
)

// A wire is the driver within one call. A call that was interrupted is run again from its start, with the
// answers that it had, so it needs no goroutine.
type wire struct {
	cas.Driver // nil: a Session makes no other calls than those below

	w       *leases
	d       *daemon
	choice  Choice
	answers []answer
	n       int // of answers that were used
	asked   int8
	waits   bool
	until   int64 // then
	at      int64 // the clock when the last answer came
	offset  int64
}

func (x *wire) moment() pool.Moment { return moment(x.at, x.offset) }

// ask is one request: as it was answered, or at the server.
func (x *wire) ask(do func() answer) answer {
	switch {
	case x.waits:
		return answer{err: errWaits}
	case x.n < len(x.answers):
		a := x.answers[x.n]
		x.n++
		x.at, x.offset = a.at, a.offset
		return a
	}
	kind := x.choice.Kind
	if x.asked != x.choice.At {
		kind = Default
	}
	x.asked++
	w := x.w
	switch kind {
	case LateSend:
		return x.wait(w.after(int(x.choice.Who)), nil)
	case StopSend:
		return x.wait(w.now+pauses[x.choice.Arg], nil)
	case LateAnswer:
		a := do()
		return x.wait(w.after(int(x.choice.Who)), &a)
	case NoRequest:
		return x.wait(w.now+timeout, &answer{err: errLate})
	case NoAnswer:
		do()
		return x.wait(w.now+timeout, &answer{err: errLate})
	case Breaks:
		w.server.Break()
	}
	a := do()
	x.keep(a, w.now)
	return a
}

func (x *wire) keep(a answer, at int64) {
	a.at, a.offset = at, x.d.offset
	x.answers = append(slices.Clip(x.answers), a)
	x.n++
	x.at, x.offset = a.at, a.offset
}

// wait ends the present run of the call. With an answer, the next one goes on with that.
func (x *wire) wait(until int64, a *answer) answer {
	if a != nil {
		x.keep(*a, until)
	}
	x.waits, x.until = true, until
	return answer{err: errWaits}
}

// Connect implements cas.Driver.
func (x *wire) Connect(context.Context) (string, error) {
	if x.n == len(x.answers) && !x.waits && x.d.client.Conn != "" && x.w.server.Alive(x.d.client.Conn) { // no request
		x.keep(answer{conn: x.name()}, x.w.now)
		return x.name(), nil
	}
	a := x.ask(func() answer {
		x.d.client.Conn = x.w.server.Dial()
		return answer{conn: x.name()}
	})
	return a.conn, a.err
}

// name is that of the connection.
func (x *wire) name() string {
	if !x.w.mutant.OneName {
		return x.d.client.Conn
	}
	if x.d.firstConn == "" {
		x.d.firstConn = x.d.client.Conn
	}
	return x.d.firstConn
}

// Load implements cas.Driver.
func (x *wire) Load(_ context.Context, conn string) (pool.View, error) {
	a := x.ask(func() answer {
		if x.w.mutant.OneName {
			conn = x.d.client.Conn
		}
		v, err := x.w.server.Load(&x.d.client, conn)
		return answer{view: v, err: err}
	})
	return a.view, a.err
}

// Commit implements cas.Driver.
func (x *wire) Commit(_ context.Context, conn string, ch pool.Change) (cas.Answer, error) {
	a := x.ask(func() answer {
		c, err := x.w.mutant.CommitTo(x.w.server, &x.d.client, conn, ch)
		return answer{commit: c, err: err}
	})
	return a.commit, a.err
}

// Announce implements cas.Driver.
func (x *wire) Announce(_ context.Context, conn string, worker uint64, text string) error {
	return x.ask(func() answer { return answer{err: x.w.server.Announce(&x.d.client, conn, worker, text)} }).err
}

// call lets the next event happen: a call of a daemon, or the rest of one.
func (w *leases) call(c Choice) {
	i, at := w.first(-1)
	d := w.own(i)
	w.now = max(w.now, at)
	u := d.during
	if u == nil {
		u = &during{upkeep: d.up < d.due, started: w.now, offset: d.offset}
	}
	x := &wire{w: w, d: d, choice: c, answers: u.answers, at: u.started, offset: u.offset}
	if c.Kind == Default {
		x.choice.At = -1
	}
	s := d.session.Clone()
	s.Driver, s.Now = x, x.moment
	d.during = nil
	var done func()
	switch {
	case u.upkeep:
		soon := s.Upkeep(context.Background())
		done = func() { d.up = w.now + map[bool]int64{true: timeout / 4, false: heartbeat}[soon] }
	case d.grant.Worker == 0:
		done = w.acquire(i, s)
	default:
		done = w.extend(i, s)
	}
	w.asked = int(x.asked)
	if x.waits {
		d.during = &during{u.upkeep, x.answers, x.until, u.started, u.offset}
	} else {
		s.Driver, s.Now = nil, nil
		d.session = s
		done()
	}
	w.use()
}

// acquire asks for a worker id. What it returns notes the outcome.
func (w *leases) acquire(i int, s *cas.Session) func() {
	d := w.daemons[i]
	g, err := s.Acquire(context.Background(), workerid.Request{Owner: d.owner(), Min: 1, Max: 2})
	return func() {
		d.due = w.now + heartbeat
		if left := (cas.Watching{}); errors.As(err, &left) {
			d.due = w.now + left.RetryAfter().Milliseconds()
		}
		if err == nil {
			s.Heard(g)
			d.grant = g
			w.windows = append(w.windows, window{g.Worker, g.Lo, g.Hi, g.Lo - 1, i, 0, 0})
		}
	}
}

// extend asks for a longer window.
func (w *leases) extend(i int, s *cas.Session) func() {
	d := w.daemons[i]
	results, err := s.Extend(context.Background(), []workerid.Grant{d.grant})
	idle := s.Idle()
	return func() {
		d.due = w.now + heartbeat
		if idle {
			d.up = w.now + cas.IdleFor(heartbeat*time.Millisecond).Milliseconds()
		}
		if err != nil {
			return
		}
		r := results[0]
		left := cas.Watching{}
		switch {
		case errors.Is(r.Err, workerid.ErrCloned):
			d.stopped = true
		case errors.Is(r.Err, workerid.ErrLost):
			d.grant, d.due = workerid.Grant{}, w.now+50
		case errors.As(r.Err, &left):
			d.due = w.now + min(left.RetryAfter().Milliseconds(), heartbeat)
		case r.Err == nil:
			d.grant.Hi = r.Grant.Hi
			lengthen(w.windows, i, d.grant.Worker, d.grant.Lo, r.Grant.Hi)
		}
	}
}

// Say implements World.
func (w *leases) Say(c Choice) string {
	first, _ := w.first(-1)
	d, who := w.daemons[first], "an operator"
	if c.Who >= 0 {
		who = "daemon " + w.daemons[c.Who].name
	}
	what := "extends its lease"
	switch {
	case d.during != nil:
		what = "goes on with a call"
	case d.up < d.due:
		what = "looks after what is left"
	case d.grant.Worker == 0:
		what = "asks for a worker id"
	}
	return say("leases", c, "WHO", who, "CALL", "daemon "+d.name+" "+what, "REQUEST", place(c), "LATER", nextEvent,
		"SPAN", span(pauses[c.Arg%2]), "SKEW", span(skew/2))
}
