package explore

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
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
	n      int          // values
	span   counter.Span // of timestamps
	block  counter.Block
	next   uint64

	done  bool
	state leader.State
	last  uint64
	err   error
}

const (
	toCommit = iota
	toForward
	toReserve
	toReturn
	toShow // no request: what the watch shows, of change
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
	fenced := w.board.Leaders[w.hub.group].Revision != x.term.Fence
	switch x.kind {
	case toCommit:
		x.done, x.state = w.commit(x.change)
	case toReserve:
		if x.err = errFence; !fenced || w.mutant == noFence {
			x.block, x.err = w.grant(x)
		}
		if x.err == nil && w.members[x.from].life == x.life {
			w.own(x.from).newest = x.block
		}
	case toReturn:
		if fenced && w.mutant != returnAfterTerm && w.mutant != writeNumber {
			x.err = errFence
			return
		}
		switch w.mutant {
		case writeNumber:
			w.record.Next, w.record.Token = x.next, w.token()
			return
		case returnAfterTerm:
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
	if w.mutant == surplus {
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
	_, claims := c.Nodes["x"]
	for i := range w.board.Nodes { // it always runs, but renews at no claim
		if w.board.Nodes[i].ID == "x" && !claims {
			w.board.Nodes = append([]leader.NodeKey(nil), w.board.Nodes...)
			w.board.Nodes[i].Revision = w.revision
		}
	}
	for g, rev := range c.Leaders {
		if w.board.Leaders[g].Revision != rev && !(w.mutant == untilOfAll && renews) {
			return false, w.board
		}
	}
	for id, rev := range c.Nodes {
		if w.board.Node(id).Revision != rev && w.mutant != noNodeCompare {
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
	if w.hub.watched && len(c.Lead) > 0 {
		w.show()
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
		left = append(left, leader.NodeKey{Node: *c.Put, Revision: w.revision, Stamp: c.Stamp})
	}
	w.board.Nodes = left
	return true, w.board
}

// show lets the watch show all daemons who leads now: soon or late, and not always what.
func (w *strict) show() {
	for i, m := range w.members {
		w.serial++
		x := msg{kind: toShow, from: i, answer: true, life: m.life, at: w.now + shows[w.serial%len(shows)]}
		if x.change.Lead = map[int]leader.Leader{}; w.serial%3 == 0 {
			x.change.Lead = nil
		}
		for g, l := range w.board.Leaders {
			if x.change.Lead != nil && l.Revision == w.revision {
				x.change.Lead[g] = l
			}
		}
		w.msgs = append(w.msgs, x)
	}
}

// shows are how long that takes, ns.
var shows = [...]int64{0, 20 * ms, 900 * ms, 4000 * ms}

// gotBack is what an answer does, if somebody waits for it.
func (w *strict) gotBack(x *msg) {
	m := w.own(x.from)
	if m.m == nil || m.life != x.life {
		return
	}
	now := w.clock(m.i, w.now)
	switch l := m.line; x.kind {
	case toShow:
		m.m.Saw(now, x.change.Lead)
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
		if w.mutant != reserveAfterUse {
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
			m.m.Ended(w.hub.group)
			m.wake = w.now
		}
	case toForward:
		late := w.mutant == lateForward && m.forward.serial > 0 && x.err == nil
		if m.forward.serial != x.serial && !late {
			return
		}
		m.forward = pending{}
		if w.mutant == surplus && x.err == nil {
			m.surplus = x.last + w.hub.definition.Step
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
	before := m.m.Until(w.hub.group)
	if w.mutant == untilOfAll && x.err == nil && x.done && call.renews {
		x.state.Leaders = m.m.View().Leaders
	}
	m.m.Answer(now, x.done, x.state, x.err)
	if m.m.Until(w.hub.group) != before {
		m.late = now - call.sent
	}
	if w.mutant == unsealAfterDemote && x.err != nil && !call.renews && m.line != nil && m.line.ending &&
		m.before > now {
		w.begin(m, m.line.term)
		m.stall = m.before
	}
}
