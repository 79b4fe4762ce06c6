package strictsim

import (
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
)

// A board is etcd: keys with revisions, changed by atomic transactions.
type board struct {
	w        *World
	revision int64
	state    leader.State
	writes   int
	down     bool // nobody gets an answer
	waiting  []func()
}

func (b *board) token() string {
	b.writes++
	return fmt.Sprint("write ", b.writes)
}

// commit carries out a Change of a daemon whose stamp is wrong by lie.
func (b *board) commit(c leader.Change, lie int64) (bool, leader.State) {
	renews := len(c.Lead) == 0 && c.Put != nil
	for g, rev := range c.Leaders {
		if b.state.Leaders[g].Revision != rev && !(b.w.mutant == UntilOfAll && renews) {
			return false, b.snapshot()
		}
	}
	for id, rev := range c.Nodes {
		if b.state.Node(id).Revision != rev && b.w.mutant != NoNodeCompare {
			return false, b.snapshot()
		}
	}
	if len(c.Lead) == 0 && c.Put == nil && len(c.Drop) == 0 {
		return true, b.snapshot()
	}
	b.revision++
	written := map[int]leader.Leader{}
	for g, l := range c.Lead {
		l.Revision = b.revision
		b.state.Leaders[g], written[g] = l, l
	}
	for _, h := range b.w.hosts { // the watch, which may miss it
		if p := h.process; len(c.Lead) > 0 && p != nil && b.w.rnd.IntN(4) > 0 {
			shown := written
			if b.w.rnd.IntN(4) == 0 {
				shown = nil
			}
			p.push(b.w.delay(), &p.thread, func() {
				p.m.Saw(p.host.clock(), shown)
				p.drive()
			})
		}
	}
	if c.Put != nil {
		b.put(leader.NodeKey{Node: *c.Put, Revision: b.revision, Stamp: c.Stamp + lie/ms})
	}
	for _, id := range c.Drop {
		b.drop(id)
	}
	return true, b.snapshot()
}

func (b *board) put(n leader.NodeKey) {
	for i := range b.state.Nodes {
		if b.state.Nodes[i].ID == n.ID {
			b.state.Nodes[i] = n
			return
		}
	}
	b.state.Nodes = append(b.state.Nodes, n)
}

func (b *board) drop(id string) {
	for i, n := range b.state.Nodes {
		if n.ID == id {
			b.state.Nodes = append(b.state.Nodes[:i:i], b.state.Nodes[i+1:]...)
			return
		}
	}
}

func (b *board) snapshot() leader.State {
	s := b.state
	s.Nodes = append([]leader.NodeKey(nil), s.Nodes...)
	return s
}

var errFence = errors.New("another daemon leads")

// reserve is Reserve within a term.
func (b *board) reserve(n *name, t leader.Term, count uint64) (counter.Block, error) {
	if b.state.Leaders[t.Group].Revision != t.Fence && b.w.mutant != NoFence {
		return counter.Block{}, errFence
	}
	return n.record.Reserve(count, b.token())
}

func (b *board) giveBack(n *name, t leader.Term, block counter.Block, next uint64) error {
	if b.state.Leaders[t.Group].Revision != t.Fence && b.w.mutant != ReturnAfterTerm && b.w.mutant != WriteNumber {
		return errFence
	}
	switch b.w.mutant {
	case WriteNumber:
		n.record.Next, n.record.Token = next, b.token()
		return nil
	case ReturnAfterTerm:
		block.Token = n.record.Token
	}
	return n.record.Return(block, next, b.token())
}

// call sends a request to etcd. exec is carried out there, now or late or never; done is called once,
// with whether the answer came in time.
func (p *process) call(busy *bool, timeout int64, exec func(), done func(ok bool)) {
	w, b := p.w, p.w.board
	over := false
	finish := func(ok bool) {
		if !over {
			over = true
			done(ok)
		}
	}
	p.afterOn(busy, timeout, func() { finish(false) })
	if !p.alive {
		return
	}
	answer := func() {
		exec()
		if p.host.cut || w.chance(w.risk) {
			return // the answer is lost
		}
		p.push(w.delay(), busy, func() { finish(true) })
	}
	if p.host.cut || w.chance(w.risk) {
		if w.rnd.IntN(2) == 0 {
			w.after(w.between(0, 12*sec), exec) // it is on its way for long
		}
		return
	}
	w.after(w.delay(), func() {
		if b.down {
			if w.rnd.IntN(2) == 0 {
				b.waiting = append(b.waiting, answer)
			}
			return
		}
		answer()
	})
}

// delay is that of one message.
func (w *World) delay() int64 {
	switch {
	case w.chance(w.risk):
		return w.between(0, 8*sec)
	case w.chance(w.risk):
		return w.between(0, 1200*ms)
	}
	return w.between(100_000, 3*ms)
}
