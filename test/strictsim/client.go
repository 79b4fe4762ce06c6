package strictsim

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/order"
)

// An ask is a request as it reaches a process.
type ask struct {
	n        *name
	count    int
	whole    bool // all values in a row, or none
	redirect bool // Redis's protocol
	forward  bool // another daemon's
	moment   int64
	arrived  int64 // in true time
	times    int   // it was parked
	over     bool
	reply    func(run id.Run, err error)
}

var errDown = errors.New("connection refused")

// client asks for values again and again.
func (w *World) client() {
	w.request(w.rnd.IntN(len(w.hosts)), w.names[w.rnd.IntN(len(w.names))], func(bool) {
		w.after(w.between(0, 400*ms), w.client)
	})
}

// rush has many clients ask for values of a name, everywhere, because its leader changes.
func (w *World) rush(n *name) {
	for range 12 {
		w.after(w.rnd.Int64N(sec), func() { w.request(w.rnd.IntN(len(w.hosts)), n, func(bool) {}) })
	}
}

// request is one of a client.
func (w *World) request(at int, n *name, then func(ok bool)) {
	begin, count, moves, over := w.now, 1, 0, false
	if w.rnd.IntN(4) == 0 {
		count = 1 + w.rnd.IntN(12)
	}
	finish := func(ok bool) {
		if !over {
			over = true
			then(ok)
		}
	}
	w.after(w.between(sec, w.patience+sec), func() { finish(false) })
	redirect, whole := w.rnd.IntN(2) == 0, w.rnd.IntN(3) == 0
	var send func(h *host)
	send = func(h *host) {
		a := &ask{n: n, count: count, whole: whole, redirect: redirect}
		a.reply = func(run id.Run, err error) {
			if over {
				return
			}
			var there id.Elsewhere
			switch {
			case err == nil:
				w.Requests = append(w.Requests, order.Request{
					Name: n.record.Name, Begin: begin, End: w.now, First: run.First, Stride: run.Stride, N: run.N,
					Where: "host " + h.address(),
				})
				if w.rnd.IntN(2) == 0 { // somebody who has seen it asks another host
					w.request(w.rnd.IntN(len(w.hosts)), n, func(bool) {})
				}
			case errors.As(err, &there) && there.Address != "" && moves < 5:
				moves++
				w.Moved++
				send(w.at(there.Address))
				return
			default:
				w.Refused++
			}
			finish(err == nil)
		}
		h.send(a)
	}
	send(w.hosts[at])
}

// send brings an ask to a host's process, and its reply back.
func (h *host) send(a *ask) {
	w := h.w
	w.after(w.between(50_000, 2*ms), func() {
		p := h.process
		if p == nil || !p.alive {
			a.reply(id.Run{}, errDown)
			return
		}
		p.inbox = append(p.inbox, a)
		p.turn()
	})
}

// turn is one pass of the event loop over its sockets.
func (p *process) turn() {
	w := p.w
	if p.turning {
		return
	}
	p.turning = true
	p.after(0, func() {
		now := p.host.clock()
		p.pause()
		in := p.inbox
		p.inbox = nil
		for _, a := range in {
			a.moment, a.arrived = p.host.clock(), w.now
			if p.w.mutant == TurnsClock {
				a.moment = now
			}
			p.pause()
			p.answer(a)
		}
		p.turning = false
		if len(p.inbox) > 0 {
			p.turn()
		}
	})
}

// answer answers a request, or parks it.
func (p *process) answer(a *ask) {
	w := p.w
	s := p.of(a.n)
	var run id.Run
	var err error
	before := s.Issued()
	if a.whole {
		run, err = s.Reserve(id.When{Moment: a.moment, Redirect: a.redirect}, a.count)
	} else {
		run, err = s.Mint(id.When{Moment: a.moment, Redirect: a.redirect}, a.count, false)
	}
	w.settle()
	switch {
	case !p.alive:
		return
	case err == id.ErrWait:
		p.parked = append(p.parked, a)
		a.times++
		n := a.times
		p.after(400*ms, func() {
			if a.times == n {
				p.again(a)
			}
		})
		return
	case err == nil && !a.forward:
		w.issued(a.n, run.First, run.Stride, run.N)
	}
	if err == nil && w.timed && s.Issued() > before { // else the leader before has issued it, by its clock
		p.timely(a.n, run, a.arrived)
	}
	p.pause()
	if p.alive && !a.over {
		a.over = true
		w.after(w.between(50_000, ms), func() { a.reply(run, err) })
	}
}

func (p *process) again(a *ask) {
	for i, x := range p.parked {
		if x == a {
			p.parked = append(p.parked[:i:i], p.parked[i+1:]...)
			p.answer(a)
			return
		}
	}
}

// wake makes all parked requests ask again. Any goroutine may call it.
func (p *process) wake() { p.woken.Store(true) }

// wakeAll does so in all processes that want it.
func (w *World) wakeAll() {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.woken.Load() {
			p.woken.Store(false)
			p.after(0, func() {
				parked := p.parked
				p.parked = nil
				for _, a := range parked {
					p.answer(a)
				}
			})
		}
	}
}
