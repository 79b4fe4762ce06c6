package strictsim

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
)

// A host runs one process after another. Its clock is never set, but it may be too fast or too slow.
type host struct {
	w       *World
	index   int
	rate    float64 // of its clock
	began   int64   // what its clock said at the beginning
	cut     bool    // it cannot reach etcd
	alone   bool    // it cannot reach other hosts
	process *process
	lives   int
	dial    dial // its time of day
}

func (h *host) clock() int64    { return h.began + int64(float64(h.w.hands.Load())*h.rate) }
func (h *host) address() string { return fmt.Sprint(h.index) }

// at returns the host of an address.
func (w *World) at(address string) *host { return w.hosts[address[0]-'0'] }

// A process is a daemon.
type process struct {
	w      *World
	host   *host
	id     string
	alive  bool
	frozen int64 // until then it stands still
	*elector
	sequences []*sequence // one for each name
	offset    atomic.Int64
	behind    bool // its clock or the median was at the last sample

	woken   atomic.Bool // parked requests are to ask again
	turning bool
	inbox   []*ask // that the event loop has not read
	parked  []*ask
}

func (h *host) start() {
	h.lives++
	p := &process{w: h.w, host: h, id: fmt.Sprintf("%c%d", 'a'+h.index, h.lives), alive: true}
	p.elector = &elector{p: p, m: leader.NewMachine(leader.Node{ID: p.id, Redis: h.address()})}
	h.process = p
	for _, n := range h.w.names {
		p.sequences = append(p.sequences, newSequence(p, n))
	}
	if h.w.timed {
		for _, n := range h.w.names {
			p.m.SetTimed(n.group)
		}
		p.keepTime()
	}
	p.soon(p.drive)
}

// kill ends a process without its doing.
func (p *process) kill() {
	p.alive = false
	p.w.hangUp(p)
}

func (p *process) of(n *name) *sequence {
	for _, s := range p.sequences {
		if s.n == n {
			return s
		}
	}
	panic("no such name")
}

// An elector drives a leader.Machine, as a leader.Runner does. It is one thread.
type elector struct {
	p       *process
	m       *leader.Machine
	thread  bool // it is busy
	calls   int
	calling bool                    // a call is under way
	late    [leader.MaxGroups]int64 // for TimedFromAnswer: by how much until is too large
	stall   int64                   // for UnsealAfterDemote: until then it does nothing
	stops   func()                  // called when all groups are handed over
}

// soon runs something on the elector's thread.
func (e *elector) soon(f func()) { e.p.afterOn(&e.thread, 0, f) }

// busy runs something on the elector's thread that may pause.
func (e *elector) busy(f func()) {
	e.thread = true
	f()
	e.thread = false
}

// drive acts on what has happened, and starts a call if one is due.
func (e *elector) drive() {
	p, w := e.p, e.p.w
	e.busy(e.act)
	if e.stops != nil && e.m.View().At > 0 && !e.leads() && e.calls > 0 {
		if node := e.m.View().Nodes; !has(node, p.id) {
			e.stops()
			return
		}
	}
	if e.calling || p.host.clock() < e.stall {
		return
	}
	now := p.host.clock()
	e.busy(p.pause)
	if w.timed {
		e.m.Tell(now, p.host.wall())
	}
	c, wake := e.m.Next(now)
	if c == nil {
		n := e.calls
		p.afterOn(&e.thread, wake-p.host.clock(), func() {
			if n == e.calls {
				e.drive()
			}
		})
		return
	}
	e.calls++
	e.calling = true
	change := *c
	e.busy(p.pause)
	var done bool
	var s leader.State
	known := e.m.View().Leaders
	p.call(&e.thread, int64(leader.Patience), func() { done, s = w.board.commit(change, p.host.dial.lie) }, func(ok bool) {
		e.busy(p.pause)
		e.calling = false
		var err error
		if !ok {
			done, s, err = false, leader.State{}, errors.New("no answer")
		}
		if w.mutant == UntilOfAll && ok && done && len(change.Lead) == 0 && change.Put != nil {
			s.Leaders = known
		}
		before := e.untils()
		e.m.Answer(p.host.clock(), done, s, err)
		for g, until := range before {
			if e.m.Until(g) != until {
				e.late[g] = p.host.clock() - now
			}
		}
		if !ok && len(change.Lead) > 0 && change.Put == nil {
			p.releaseFailed(change)
		}
		e.drive()
	})
}

func has(nodes []leader.NodeKey, id string) bool {
	for _, n := range nodes {
		if n.ID == id {
			return true
		}
	}
	return false
}

func (e *elector) leads() bool {
	for g := range leader.MaxGroups {
		if e.m.Leads(g) {
			return true
		}
	}
	return false
}

func (e *elector) untils() (all [leader.MaxGroups]int64) {
	for g := range all {
		all[g] = e.m.Until(g)
	}
	return all
}

// until is what takers compare moments with.
func (e *elector) until(g int) int64 {
	until := e.m.Until(g)
	switch {
	case until == 0:
	case e.p.w.mutant == FullTTL:
		until += int64(leader.TTL) / 10
	case e.p.w.mutant == TimedFromAnswer:
		until += e.late[g]
	}
	return until
}

// act begins and ends terms.
func (e *elector) act() {
	p := e.p
	for _, ev := range e.m.Events() {
		p.pause()
		if ev.Begins {
			p.w.Terms++
			for _, s := range p.sequences {
				if s.n.group == ev.Group {
					s.begin(ev.Term)
					p.w.rush(s.n)
				}
			}
			continue
		}
		left := 1
		ended := func() {
			if left--; left == 0 {
				e.soon(func() {
					e.m.Ended(ev.Group)
					e.drive()
				})
			}
		}
		for _, s := range p.sequences {
			if s.n.group == ev.Group {
				left++
				s.end(ended)
			}
		}
		ended()
	}
	v := e.m.View()
	for _, s := range p.sequences {
		if !e.m.Leads(s.n.group) {
			l := v.Leaders[s.n.group]
			if l.ID == p.id {
				l.Redis = ""
			}
			s.Follow(l.Redis)
		}
	}
	p.w.settle()
}

// demote hands a group over.
func (e *elector) demote(g int) {
	e.p.note()
	if e.m.Demote(e.p.host.clock(), g) == nil {
		e.p.w.Demotes++
	}
	e.drive()
}

// stop hands all over and ends the process, or kills it if that takes too long.
func (p *process) stop(patience int64, then func()) {
	end := func() {
		if p.alive {
			p.kill()
			then()
		}
	}
	p.stops = end
	p.note()
	p.m.Stop(p.host.clock())
	p.drive()
	p.after(patience, end)
}
