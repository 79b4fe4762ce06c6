package explore

import (
	"log/slog"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/test/sim"
)

// The figures of the world of strict order, ns.
const (
	ms        = int64(time.Millisecond)
	askEvery  = 500 * ms // a client asks one daemon after the other, and at once
	askAgain  = 100 * ms // another one the next
	storeWait = 5000 * ms
	callWait  = 1000 * ms // for another daemon
	callPause = 25 * ms
	reborn    = 50 * ms
)

// stops are how long a daemon stands still there, or is cut off, and delays how long something is on its way, ns: about
// as long as a leader may answer, or somebody waits, and longer.
var (
	stops  = [...]int64{4700 * ms, 5100 * ms, 6500 * ms}
	delays = [...]int64{900 * ms, 1500 * ms, 6500 * ms}
)

const held = 6500 * ms // is how long a request is

// rates are those of clocks, in thousandths: as far apart as may be.
var rates = [...]int64{955, 1050, 1050}

// The sequence has blocks of few values, or of so many that they last while a leader does not reach the store.
const sequenceName, few, some, many = "orders", 4, 12, 36

var quiet = slog.New(slog.DiscardHandler)

// strict is the world of three daemons and a sequence of strict order over a store like etcd, with clients that ask all
// of them in turn. The real Machines decide, and the real Strict and Batches serve. It does not change.
type strict struct {
	mutant   sim.Mutant
	hub      *hub
	now      int64
	calm     int64 // preemptions come before that, and while it is not clear who leads
	judge    int64 // when porcupine sees the history
	revision int64
	board    leader.State
	record   counter.Record
	tokens   int
	serial   int // of calls
	members  [3]*member
	dials    [3]int64 // of timestamps: how far the time of day of a daemon's host is ahead, ns
	misled   bool     // what a daemon took for the fleet's time was ahead,
	behind   bool     // or was behind, or its own time of day was
	drift    int64    // see drifted
	msgs     []msg
	asks     []request // that wait
	turn     int       // of clients
	asked    int64     // when the next one comes
	moves    int64     // of the order of events
	largest  uint64    // that was answered
	issued   []uint64  // the newest ones that clients have got
	history  *answeredOp
	calls    int // requests to others within the last event
	wrong    string
	owned    [3]bool // members that are only this state's
	next     *strict
}

// A hub is how Stricts reach the present state, and what is the same in all states, which share one.
type hub struct {
	definition counter.Definition
	group      int
	timed      *timed // nil = a sequence
	watched    bool
	stride     uint64 // between the neighbours of a run
	most       int    // values in a run

	w        *strict
	choice   Choice
	asked    int8
	override int64 // what until was when a request read it; 0 = it reads it now
	configs  [3]issuer.StrictConfig
}

// Strict returns the world once a daemon leads and all is steady. A block has so many values.
func Strict(batch uint64) func(mutant string) World {
	return func(mutant string) World { return steady(sequence(batch), mutant) }
}

func sequence(batch uint64) *hub {
	d := counter.Definition{Name: sequenceName, Start: 1, Step: 3, Offset: 1, Max: counter.MaxValue, Strict: true,
		Batch: batch}
	return &hub{definition: d, group: leader.GroupOf(d.Name), stride: d.Step, most: id.MaxReserve}
}

// Watched returns the world of daemons that lead two groups, and whom a watch shows who leads.
func Watched(mutant string) World {
	h := sequence(some)
	h.watched = true
	return steady(h, mutant)
}

// steady is a world once a daemon leads and all is steady.
func steady(h *hub, mutant string) World {
	w := &strict{mutant: sim.Mutant(mutant), hub: h, now: 1_000_000 * ms, calm: 1 << 62, judge: 1 << 62}
	w.record = counter.NewRecord(h.definition, "0")
	for g := range w.board.Leaders {
		if g != h.group && !(h.watched && g == (h.group+1)%leader.Groups) { // the others are led by a daemon that only renews
			w.board.Leaders[g] = leader.Leader{Node: leader.Node{ID: "x"}, Number: 1, Revision: 1}
		}
	}
	w.board.Nodes = []leader.NodeKey{{Node: leader.Node{ID: "x"}, Revision: 1}}
	w.revision = 1
	for i := range w.members {
		w.hub.configs[i] = issuer.StrictConfig{
			Definition: h.definition, MaxWait: 1 << 60, Moment: func() int64 { return w.hub.w.clock(i, w.hub.w.now) },
			Status: func() counter.Status { return counter.Status{} }, Ring: func() {}, Wake: func() {},
			Clock: h.timed.clock(w, i),
		}
		w.members[i] = w.newborn(i, 0, w.now+int64(i)*2200*ms)
	}
	w.asked = w.now + askEvery
	start := w.now + 20_000*ms
	for w.now < start {
		w = w.step(Choice{})
	}
	w.wrong, w.misled, w.behind, w.drift, w.history = "", false, false, stale, nil
	w.calm, w.judge = w.now+strictFaults*ms, w.now+strictTime*ms
	return &since{w, w.Now()}
}

// How long a schedule is, as in testdata/worlds.txt, and within which time of it faults begin mostly, ms.
const strictTime, strictFaults = 12_000, 2_600

// clock is what a daemon's clock says.
func (w *strict) clock(i int, now int64) int64 { return now / 1000 * rates[i] }

// when is when its clock says that.
func (w *strict) when(i int, clock int64) int64 { return (clock+rates[i]-1)/rates[i]*1000 + 1000 }

func (w *strict) clone() *strict {
	c := *w
	c.next, c.owned = nil, [3]bool{}
	c.msgs, c.asks, c.issued = slices.Clip(w.msgs), slices.Clip(w.asks), slices.Clip(w.issued)
	return &c
}

// own makes a daemon this state's.
func (w *strict) own(i int) *member {
	if w.owned[i] {
		return w.members[i]
	}
	w.owned[i] = true
	m := *w.members[i]
	if m.m != nil {
		m.m, m.batches = m.m.Clone(), m.batches.Clone()
		var was, is counter.Issuer
		if m.line != nil {
			l := *m.line
			was, is = l.to, l.to.(*issuer.Sequence).Clone()
			l.to, l.m = is, l.m.Clone(is)
			m.line = &l
		}
		m.s = m.s.Clone(was, is)
	}
	w.members[i] = &m
	return &m
}

// An event is the next thing that happens.
type event struct {
	what, n int
	at      int64
}

const (
	aTurn    = iota // of a daemon
	aMessage        // comes
	aClient         // asks
	aRequest        // goes on
)

// first is the event that comes next, of daemons other than one.
func (w *strict) first(but int) (e event) {
	e.at = 1 << 62
	offer := func(what, n, who int, at int64) {
		if who >= 0 {
			at = max(at, w.members[who].frozen)
		}
		if at < e.at && (who != but || but < 0) {
			e = event{what, n, at}
		}
	}
	for n, r := range w.asks { // of what happens when a daemon goes on, requests come first: that is the worst
		if r.resumes > 0 {
			offer(aRequest, n, r.at, r.resumes)
		}
	}
	for n, x := range w.msgs {
		offer(aMessage, n, x.where(), x.at)
	}
	for i, m := range w.members {
		offer(aTurn, i, i, m.due())
	}
	offer(aClient, 0, -1, w.asked)
	e.at = max(e.at, w.now)
	return e
}

func (w *strict) after(but int) int64 { return w.first(but).at + ms }

// Choices implements World.
func (w *strict) Choices(to []Choice, extra bool) []Choice {
	o := offer(append(to, Choice{}))
	if !extra {
		return o
	}
	if w.next == nil {
		w.next = w.step(Choice{})
	}
	e := w.first(-1)
	who := w.who(e)
	preempt := w.now < w.calm || w.disputed()
	for at := range w.next.calls {
		if preempt {
			o.preempt(who, at, LateSend, LateAnswer)
		}
		o.fault(NoRequest, who, at, 0)
		o.fault(NoAnswer, who, at, 0)
		for long := range stops {
			o.fault(Delayed, who, at, long)
			o.fault(StopSend, who, at, long)
			o.fault(LateAnswer, who, at, long)
		}
	}
	if e.what == aClient {
		if preempt {
			o.preempt(who, 0, Put, Between)
		}
		for arg := range 2 { // of the thread, and of the process
			o.fault(Held, who, 0, arg)
			o.fault(Between, who, 0, arg)
		}
		o.fault(Pause, who, 0, len(stops)-1)
		return o
	}
	for long := range stops {
		o.fault(Pause, who, 0, long)
		o.fault(Cut, who, 0, long)
	}
	o.fault(Kill, who, 0, 0)
	o.fault(Stop, who, 0, 0)
	if m := w.members[who]; m.m != nil && m.m.Leads(w.hub.group) {
		o.fault(Demote, who, 0, 0)
	}
	if w.hub.timed != nil {
		o.faults(Jump, who, 0, len(leaps))
	}
	return o
}

// disputed says that somebody may be about to lead, or believes to do so still: preemptions matter.
func (w *strict) disputed() bool {
	may, leads := 0, 0
	for _, m := range w.members {
		switch {
		case m.m == nil:
			return true
		case m.m.Until(w.hub.group) > w.clock(m.i, w.now):
			may++
			leads++
		case m.m.Leads(w.hub.group):
			leads++
		}
	}
	return may != 1 || leads != 1
}

// who is the daemon that an event is of.
func (w *strict) who(e event) int {
	switch e.what {
	case aTurn:
		return e.n
	case aMessage:
		return w.msgs[e.n].from
	case aRequest:
		return w.asks[e.n].at
	}
	return w.turn % len(w.members)
}

// Do implements World.
func (w *strict) Do(c Choice) World {
	if c.Kind == Default && w.next != nil {
		return w.next
	}
	return w.step(c)
}

func (w *strict) step(c Choice) *strict {
	n := w.clone()
	e := n.first(-1)
	n.now = e.at
	n.hub.w, n.hub.choice, n.hub.asked, n.hub.override = n, c, 0, 0
	n.hub.timed.enter(n)
	i := n.who(e)
	switch c.Kind {
	case Pause:
		m := n.own(i)
		if m.frozen = n.now + stops[c.Arg]; n.mutant == turnsClock {
			m.began = n.clock(i, n.now)
		}
		return n
	case Kill:
		n.kill(i, reborn)
		return n
	case Cut:
		n.own(i).cut = n.now + stops[c.Arg]
		return n
	case Stop, Demote:
		n.leave(i, c.Kind)
		return n
	case Jump:
		n.dials[i] = leaps[c.Arg]
		return n
	}
	if c.Kind == Default {
		n.hub.choice.At = -1
	}
	switch e.what {
	case aTurn:
		n.run(i)
	case aMessage:
		n.deliver(e.n)
	case aClient:
		n.arrives(i, c)
	case aRequest:
		n.resume(e.n)
	}
	n.calls = int(n.hub.asked)
	return n
}
