package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// A member is a daemon between its events. It does not change.
type member struct {
	i       int
	name    string
	life    int
	born    int64 // it starts; before that nothing is there
	frozen  int64
	cut     int64 // until then it does not reach the store
	m       *leader.Machine
	s       *issuer.Strict
	batches *issuer.Batches
	line    *line
	wake    int64 // of the elector
	call    pending
	forward pending
	stops   bool  // it is stopping cleanly
	began   int64 // for TurnsClock: when the event loop's turn began; 0 = now
	late    int64 // for TimedFromAnswer
	stall   int64 // for UnsealAfterDemote
	before  int64 // for UnsealAfterDemote: until, of the last term
	tail    counter.Block
	newest  counter.Block // that the store has granted
	surplus uint64        // for Surplus: a value that nobody has asked for yet
	offset  int64         // of timestamps: what it takes for Unix ns minus its clock; 0 = it does not know,
	sampled int64         // and when it has looked
}

// A line is a sequence in one term. It does not change.
type line struct {
	term     leader.Term
	to       counter.Issuer
	m        *counter.Machine
	call     pending
	retry    int64
	granted  counter.Block // as far as it knows
	ending   bool          // the term is over: what is left is given back once the call under way has ended
	sealed   bool
	returned pending
}

// pending is a call under way: none if its serial is 0.
type pending struct {
	serial int
	until  int64
	renews bool // it hands nothing over
	n      int
	sent   int64
}

func (w *strict) newborn(i, life int, at int64) *member {
	return &member{i: i, life: life, name: fmt.Sprintf("%c%d", 'a'+i, life), born: at, wake: at}
}

// address is that of the host.
func (m *member) address() string { return m.name[:1] }

// kill ends a process; it starts again.
func (w *strict) kill(i int, pause int64) {
	m := w.members[i]
	w.members[i] = w.newborn(i, m.life+1, w.now+pause)
	w.asks = slices.DeleteFunc(slices.Clone(w.asks), func(r request) bool { return r.at == i })
}

// leave makes a daemon hand over what it leads.
func (w *strict) leave(i int, how Kind) {
	m := w.own(i)
	if m.m == nil {
		return
	}
	m.before = m.m.Until(w.hub.group)
	if how == Demote {
		_ = m.m.Demote(w.clock(i, w.now), w.hub.group)
	} else {
		m.m.Stop(w.clock(i, w.now))
		m.stops = true
	}
	m.wake = w.now
}

// due is when a daemon has something to do.
func (m *member) due() int64 {
	if m.m == nil {
		return m.born
	}
	at := m.wake
	for _, p := range m.calls() {
		if p != nil && p.serial > 0 {
			at = min(at, p.until)
		}
	}
	if l := m.line; l != nil && l.retry > 0 {
		at = min(at, l.retry)
	}
	return at
}

// calls are those that may be under way, by kind of message.
func (m *member) calls() [toShow]*pending {
	all := [toShow]*pending{toCommit: &m.call, toForward: &m.forward}
	if l := m.line; l != nil {
		all[toReserve], all[toReturn] = &l.call, &l.returned
	}
	return all
}

// run is a daemon's turn: it starts, or looks what is due.
func (w *strict) run(i int) {
	m := w.own(i)
	if m.m == nil {
		m.m = leader.NewMachine(leader.Node{ID: m.name, Redis: m.address()})
		m.s = issuer.NewStrict(w.hub.configs[i])
		if w.hub.timed != nil {
			m.m.SetTimed(w.hub.group)
		}
		m.batches = issuer.NewBatches(w.hub.stride, w.hub.most)
	}
	m.began = 0
	w.sample(m)
	for kind, p := range m.calls() {
		if p != nil && p.serial > 0 && p.until <= w.now {
			w.gotBack(&msg{kind: kind, from: i, serial: p.serial, life: m.life, n: p.n, err: errLate})
		}
	}
	if l := m.line; l != nil && l.retry <= w.now {
		l.retry = 0
	}
	w.drive(m)
	if m.m != nil {
		w.settle(i)
	}
}

// drive acts on what has happened, and begins a call if one is due.
func (w *strict) drive(m *member) {
	for m.m != nil {
		w.act(m)
		if m.stops && m.m.View().At > 0 && !m.m.Leads(w.hub.group) && m.call.serial == 0 && !has(m.m.View(), m.name) {
			w.kill(m.i, reborn)
			return
		}
		if m.call.serial > 0 {
			m.wake = m.call.until
			return
		}
		now := w.clock(m.i, w.now)
		if m.stall > now {
			m.wake = w.when(m.i, m.stall)
			return
		}
		if w.hub.timed != nil {
			m.m.Tell(now, w.wall(m.i))
		}
		c, wake := m.m.Next(now)
		if c == nil {
			m.wake = w.when(m.i, wake)
			return
		}
		w.serial++
		m.call = pending{serial: w.serial, until: w.when(m.i, now+int64(leader.Patience)), renews: c.Put != nil, sent: now}
		m.wake = m.call.until
		w.send(msg{kind: toCommit, from: m.i, to: -1, serial: w.serial, life: m.life, change: *c})
		if m.call.serial > 0 {
			return
		}
	}
}

func has(v *leader.View, name string) bool {
	for _, n := range v.Nodes {
		if n.ID == name {
			return true
		}
	}
	return false
}

// act begins and ends terms.
func (w *strict) act(m *member) {
	for _, ev := range m.m.Events() {
		if ev.Group != w.hub.group {
			if !ev.Begins { // nothing is issued in it
				m.m.Ended(ev.Group)
			}
			continue
		}
		if ev.Begins {
			w.begin(m, ev.Term)
			continue
		}
		if w.mutant != noSeal {
			m.s.HandOver()
		}
		m.line.ending = true
		w.finish(m)
	}
	if !m.m.Leads(w.hub.group) {
		l := m.m.View().Leaders[w.hub.group]
		if l.Redis == m.address() { // an earlier life's, see package names
			l.Redis = ""
		}
		m.s.Follow(l.Redis)
	}
}

func (w *strict) begin(m *member, t leader.Term) {
	r, i := w.record, m.i
	if w.mutant == ignoreStep && t.Number > 1 {
		r.Step, r.Offset = 1, 1
		c := w.hub.configs[i]
		c.Definition = r.Definition
		m.s = issuer.NewStrict(c)
	}
	hub := w.hub
	to := m.s.Lead(func() int64 {
		if hub.override > 0 {
			return hub.override
		}
		return hub.w.limit(i)
	})
	before := m.line
	m.line = &line{term: t, to: to, m: counter.NewMachine(r, to, r.Batch, quiet)}
	switch {
	case w.mutant == resumeBlock && m.tail.Hi > 0:
		_ = to.Append(m.tail.Lo, m.tail.Hi)
	case w.mutant == lateAppended && before != nil && m.newest != before.granted:
		_ = to.Append(m.newest.Lo, m.newest.Hi) // a block whose answer was lost
	case w.mutant == answerBeforeReserve:
		_ = to.Append(r.Next, r.Next+3*r.Step)
	}
	m.newest = counter.Block{}
}

// finish gives back what is left of a term that is over.
func (w *strict) finish(m *member) {
	l := m.line
	if l.call.serial > 0 { // its answer goes on
		return
	}
	if l.sealed {
		m.m.Ended(w.hub.group)
		return
	}
	l.sealed = true
	var b counter.Block
	var next uint64
	var ok bool
	if w.mutant == noSeal {
		rest, _ := l.to.Left()
		b, ok = m.newest, rest > 0
		next = b.Hi - (rest-1)*w.hub.definition.Step
	} else {
		b, next, ok = l.m.Stop()
	}
	switch {
	case !ok:
		m.m.Ended(w.hub.group)
		return
	case w.mutant == resumeBlock:
		m.tail = counter.Block{Lo: next, Hi: b.Hi}
		m.m.Ended(w.hub.group)
		return
	}
	w.serial++
	l.returned = pending{serial: w.serial, until: w.now + storeWait}
	x := msg{kind: toReturn, from: m.i, to: -1, serial: w.serial, life: m.life, term: l.term, block: b, next: next}
	if w.mutant == returnAfterTerm { // the network repeats it
		late := x
		late.lost, late.at = true, w.now+2000*ms
		w.msgs = append(w.msgs, late)
	}
	w.send(x)
}

// keep reserves a block, if one is needed.
func (w *strict) keep(m *member) {
	if m.m == nil || m.line == nil {
		return
	}
	l := m.line
	if l.sealed || l.call.serial > 0 || l.ending || l.retry > w.now {
		return
	}
	n := l.m.Need(w.time(m))
	if n == 0 {
		return
	}
	if w.mutant == reserveAfterUse {
		r := w.record
		b, err := r.Reserve(n, "not yet")
		l.m.Answer(w.time(m), b, err)
	}
	w.serial++
	l.call = pending{serial: w.serial, until: w.now + storeWait}
	span, _ := l.m.Span(n)
	w.send(msg{kind: toReserve, from: m.i, to: -1, serial: w.serial, life: m.life, term: l.term, n: int(n), span: span})
}

func (w *strict) time(m *member) time.Time { return time.Unix(0, w.clock(m.i, w.now)) }
