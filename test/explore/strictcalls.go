package explore

import (
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/test/strictsim"
)

// A msg is a request to the store or to a daemon on its way, or its answer.
type msg struct {
	kind     int
	from, to int // to: of a forward; -1 = the store
	serial   int
	life     int // of from
	at       int64
	answer   bool
	lost     bool // nobody gets the answer

	change leader.Change
	term   leader.Term
	n      int // values
	block  counter.Block
	next   uint64

	done  bool
	state leader.State
	last  uint64
	err   error
}

const (
	toCommit = iota
	toReserve
	toReturn
	toForward
)

var (
	errFence   = errors.New("another daemon leads")
	errNoValue = errors.New("it has none")
)

// where is the daemon that has to run for it.
func (x *msg) where() int {
	if x.answer {
		return x.from
	}
	return x.to
}

// due is when a daemon has something to do.
func (m *member) due() int64 {
	if m.m == nil {
		return m.born
	}
	at := m.wake
	for _, p := range []pending{m.call, m.forward} {
		if p.serial > 0 {
			at = min(at, p.until)
		}
	}
	if l := m.line; l != nil {
		for _, p := range []pending{l.call, l.returned} {
			if p.serial > 0 {
				at = min(at, p.until)
			}
		}
		if l.retry > 0 {
			at = min(at, l.retry)
		}
	}
	return at
}

// run is a daemon's turn: it starts, or looks what is due.
func (w *strict) run(i int) {
	m := w.own(i)
	if m.m == nil {
		m.m = leader.NewMachine(leader.Node{ID: m.name, Redis: m.name})
		m.s = issuer.NewStrict(w.hub.configs[i])
		m.batches = issuer.NewBatches(definition.Step, id.MaxReserve)
	}
	m.began = 0
	for _, p := range []*pending{&m.call, &m.forward} {
		if x := *p; x.serial > 0 && x.until <= w.now {
			w.gotBack(&msg{kind: map[*pending]int{&m.call: toCommit, &m.forward: toForward}[p], from: i, serial: x.serial,
				life: m.life, n: x.n, err: errLate})
		}
	}
	if l := m.line; l != nil {
		if x := l.call; x.serial > 0 && x.until <= w.now {
			w.gotBack(&msg{kind: toReserve, from: i, serial: x.serial, life: m.life, err: errLate})
		}
		if x := l.returned; x.serial > 0 && x.until <= w.now {
			w.gotBack(&msg{kind: toReturn, from: i, serial: x.serial, life: m.life, err: errLate})
		}
		if l.retry <= w.now {
			l.retry = 0
		}
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
		if m.stops && m.m.View().At > 0 && !m.m.Leads(theGroup) && m.call.serial == 0 && !has(m.m.View(), m.name) {
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
		if ev.Group != theGroup {
			continue
		}
		if ev.Begins {
			w.begin(m, ev.Term)
			continue
		}
		if w.mutant != strictsim.NoSeal {
			m.s.HandOver()
		}
		m.line.ending = true
		w.finish(m)
	}
	if !m.m.Leads(theGroup) {
		l := m.m.View().Leaders[theGroup]
		if l.ID == m.name {
			l.Redis = ""
		}
		m.s.Follow(l.Redis)
	}
}

func (w *strict) begin(m *member, t leader.Term) {
	r, i := w.record, m.i
	if w.mutant == strictsim.IgnoreStep && t.Number > 1 {
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
	case w.mutant == strictsim.ResumeBlock && m.tail.Hi > 0:
		_ = to.Append(m.tail.Lo, m.tail.Hi)
	case w.mutant == strictsim.LateAppended && before != nil && m.newest != before.granted:
		_ = to.Append(m.newest.Lo, m.newest.Hi) // a block whose answer was lost
	case w.mutant == strictsim.AnswerBeforeReserve:
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
		m.m.Ended(theGroup)
		return
	}
	l.sealed = true
	var b counter.Block
	var next uint64
	var ok bool
	if w.mutant == strictsim.NoSeal {
		rest, _ := l.to.Left()
		b, ok = m.newest, rest > 0
		next = b.Hi - (rest-1)*definition.Step
	} else {
		b, next, ok = l.m.Stop()
	}
	switch {
	case !ok:
		m.m.Ended(theGroup)
		return
	case w.mutant == strictsim.ResumeBlock:
		m.tail = counter.Block{Lo: next, Hi: b.Hi}
		m.m.Ended(theGroup)
		return
	}
	w.serial++
	l.returned = pending{serial: w.serial, until: w.now + storeWait}
	x := msg{kind: toReturn, from: m.i, to: -1, serial: w.serial, life: m.life, term: l.term, block: b, next: next}
	if w.mutant == strictsim.ReturnAfterTerm { // the network repeats it
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
	if w.mutant == strictsim.ReserveAfterUse {
		r := w.record
		b, err := r.Reserve(n, "not yet")
		l.m.Answer(w.time(m), b, err)
	}
	w.serial++
	l.call = pending{serial: w.serial, until: w.now + storeWait}
	w.send(msg{kind: toReserve, from: m.i, to: -1, serial: w.serial, life: m.life, term: l.term, n: int(n)})
}

func (w *strict) time(m *member) time.Time { return time.Unix(0, w.clock(m.i, w.now)) }

// callLeader asks the leader for values, unless that is under way.
func (w *strict) callLeader(m *member, address string) {
	if m.forward.serial > 0 || m.forward.until > w.now {
		return
	}
	n := m.batches.Send(0)
	if n == 0 {
		return
	}
	if m.surplus > 0 && n == 1 && w.mutant == strictsim.Surplus {
		last := m.surplus
		m.surplus = 0
		_ = m.batches.Answer(w.clock(m.i, w.now), last, nil)
		return
	}
	for j, x := range w.members {
		if x.name == address {
			w.serial++
			m.forward = pending{serial: w.serial, until: w.now + callWait, n: n}
			w.send(msg{kind: toForward, from: m.i, to: j, serial: w.serial, life: m.life, n: n})
			return
		}
	}
	_ = m.batches.Answer(w.clock(m.i, w.now), 0, errNoValue)
}

// send is a request to the store or to another daemon. Its answer comes at once, if nothing happens to it.
func (w *strict) send(x msg) {
	c := w.hub.choice
	kind := c.Kind
	if w.hub.asked != c.At {
		kind = Default
	}
	w.hub.asked++
	if x.to < 0 && w.members[x.from].cut > w.now {
		kind = NoRequest
	}
	switch kind {
	case LateSend:
		x.at = w.after(x.from)
	case LateAnswer:
		w.carryOut(&x)
		if x.at = w.after(x.from); c.Faults > 0 {
			x.at = w.now + delays[c.Arg]
		}
	case NoRequest:
		return
	case NoAnswer:
		w.carryOut(&x)
		return
	case Delayed:
		x.lost, x.at = true, w.now+delays[c.Arg]
	case StopSend:
		x.at = w.now + stops[c.Arg]
		w.members[x.from].frozen = x.at
	default:
		if x.to >= 0 && w.members[x.to].frozen > w.now {
			x.at = w.members[x.to].frozen
			break
		}
		w.carryOut(&x)
		w.gotBack(&x)
		return
	}
	w.msgs = append(w.msgs, x)
}

// deliver brings a message where it goes to.
func (w *strict) deliver(n int) {
	x := w.msgs[n]
	w.msgs = append(w.msgs[:n:n], w.msgs[n+1:]...)
	if !x.answer {
		w.carryOut(&x)
	}
	if !x.lost {
		w.own(x.from)
		w.gotBack(&x)
		if m := w.members[x.from]; m.m != nil {
			w.drive(m)
		}
		if w.members[x.from].m != nil {
			w.settle(x.from)
		}
	}
}

// carryOut is what a request does where it arrives.
func (w *strict) carryOut(x *msg) {
	x.answer = true
	fenced := w.board.Leaders[theGroup].Revision != x.term.Fence
	switch x.kind {
	case toCommit:
		x.done, x.state = w.commit(x.change)
	case toReserve:
		if x.err = errFence; !fenced || w.mutant == strictsim.NoFence {
			x.block, x.err = w.record.Reserve(uint64(x.n), w.token())
		}
		if x.err == nil && w.members[x.from].life == x.life {
			w.own(x.from).newest = x.block
		}
	case toReturn:
		if fenced && w.mutant != strictsim.ReturnAfterTerm && w.mutant != strictsim.WriteNumber {
			x.err = errFence
			return
		}
		switch w.mutant {
		case strictsim.WriteNumber:
			w.record.Next, w.record.Token = x.next, w.token()
			return
		case strictsim.ReturnAfterTerm:
			x.block.Token = w.record.Token
		}
		x.err = w.record.Return(x.block, x.next, w.token())
	case toForward:
		w.forwarded(x)
	}
}

// forwarded is a call of another daemon at the leader.
func (w *strict) forwarded(x *msg) {
	m := w.own(x.to)
	if m.m == nil {
		x.err = errNoValue
		return
	}
	n := x.n
	if w.mutant == strictsim.Surplus {
		n++
	}
	for range 2 {
		run, err := m.s.Reserve(id.When{Moment: w.clock(x.to, w.now), Redirect: true}, n)
		if x.err = err; err == nil {
			x.last = run.First + uint64(x.n-1)*run.Stride
			return
		}
		choice := w.hub.choice
		w.hub.choice.At = -1 // what the leader does is another event's
		asked := w.hub.asked
		w.keep(m)
		w.hub.choice, w.hub.asked = choice, asked
	}
}

func (w *strict) token() string {
	w.tokens++
	return tokenNames[w.tokens%len(tokenNames)]
}

var tokenNames = numbered("token-")

// commit carries out a Change.
func (w *strict) commit(c leader.Change) (bool, leader.State) {
	renews := len(c.Lead) == 0 && c.Put != nil
	w.revision++
	for i := range w.board.Nodes { // it always runs
		if w.board.Nodes[i].ID == "x" {
			w.board.Nodes = append([]leader.NodeKey(nil), w.board.Nodes...)
			w.board.Nodes[i].Revision = w.revision
		}
	}
	for g, rev := range c.Leaders {
		if w.board.Leaders[g].Revision != rev && !(w.mutant == strictsim.UntilOfAll && renews) {
			return false, w.board
		}
	}
	for id, rev := range c.Nodes {
		if w.board.Node(id).Revision != rev && w.mutant != strictsim.NoNodeCompare {
			return false, w.board
		}
	}
	if len(c.Lead) == 0 && c.Put == nil && len(c.Drop) == 0 {
		return true, w.board
	}
	w.revision++
	for g, l := range c.Lead {
		l.Revision = w.revision
		w.board.Leaders[g] = l
	}
	var left []leader.NodeKey
	for _, n := range w.board.Nodes {
		drop := c.Put != nil && n.ID == c.Put.ID
		for _, id := range c.Drop {
			drop = drop || n.ID == id
		}
		if !drop {
			left = append(left, n)
		}
	}
	if c.Put != nil {
		left = append(left, leader.NodeKey{Node: *c.Put, Revision: w.revision})
	}
	w.board.Nodes = left
	return true, w.board
}

// gotBack is what an answer does, if somebody waits for it.
func (w *strict) gotBack(x *msg) {
	m := w.own(x.from)
	if m.m == nil || m.life != x.life {
		return
	}
	now := w.clock(m.i, w.now)
	switch l := m.line; x.kind {
	case toCommit:
		if m.call.serial != x.serial {
			return
		}
		w.committed(m, x, now)
	case toReserve:
		if l == nil || l.call.serial != x.serial {
			return
		}
		if l.call = (pending{}); x.err == nil {
			l.granted = x.block
		}
		if w.mutant != strictsim.ReserveAfterUse {
			if wait := l.m.Answer(w.time(m), x.block, x.err); wait > 0 {
				l.retry = w.now + int64(wait) + ms
			}
		}
		if w.moves++; l.ending {
			w.finish(m)
		}
	case toReturn:
		if l != nil && l.returned.serial == x.serial {
			l.returned = pending{}
			m.m.Ended(theGroup)
			m.wake = w.now
		}
	case toForward:
		late := w.mutant == strictsim.LateForward && m.forward.serial > 0 && x.err == nil
		if m.forward.serial != x.serial && !late {
			return
		}
		m.forward = pending{}
		if w.mutant == strictsim.Surplus && x.err == nil {
			m.surplus = x.last + definition.Step
		}
		if err := m.batches.Answer(now, x.last, x.err); err != nil {
			m.forward.until = w.now + callPause
		}
		w.moves++
	}
}

// committed is the answer to a Change.
func (w *strict) committed(m *member, x *msg, now int64) {
	call := m.call
	m.call = pending{}
	before := m.m.Until(theGroup)
	if w.mutant == strictsim.UntilOfAll && x.err == nil && x.done && call.renews {
		x.state.Leaders = m.m.View().Leaders
	}
	m.m.Answer(now, x.done, x.state, x.err)
	if m.m.Until(theGroup) != before {
		m.late = now - call.sent
	}
	if w.mutant == strictsim.UnsealAfterDemote && x.err != nil && !call.renews && m.line != nil && m.line.ending &&
		m.before > now {
		w.begin(m, m.line.term)
		m.stall = m.before
	}
}
