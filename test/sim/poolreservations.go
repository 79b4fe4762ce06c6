package sim

import (
	"maps"
	"slices"

	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// forgetReservations kills all daemons but one while no worker id's high-water mark is past, and brings that
// moment's state back when they hold reservations and the one is cut off. That its window has grown is
// forgotten, and only the marks of reservations tell.
func (p *casPool) forgetReservations() {
	w := p.w
	if w.now < p.farUntil || w.now < p.sheltered() {
		return
	}
	for worker := uint64(1); worker <= uint64(w.Workers); worker++ { // others had what is free, until now
		if rec, err := pool.ParseRecord(p.server.Record(worker)); err == nil && rec.Mark <= start+w.now+lease/2 {
			p.server.SetRecord(worker, pool.Record{Mark: start + w.now + lease, Lo: rec.Lo, Token: p.token()}.String())
		}
	}
	d, state := w.daemons[w.rand.IntN(len(w.daemons))], p.server.Save()
	for _, x := range w.daemons {
		if x != d {
			x.restart(0)
		}
	}
	p.server.Expire()
	away := 2*watch + w.upTo(watch)
	p.quiet = w.now + 2*lease
	w.after(away, func() {
		if w.calm {
			return
		}
		for _, x := range w.daemons {
			if x != d && p.reserves(x) {
				p.spared, p.bound, d.cutOff = d, x, w.now+2*lease
			}
		}
		if p.bound != nil {
			p.restore(&state)
			p.server.Expire()
		}
		p.spared, p.bound = nil, nil
	})
}

// reserves says whether a daemon has been granted a window that has not begun, and knows it.
func (p *casPool) reserves(d *daemon) bool {
	if !d.up || d.paused || d.isCopy || p.clients[d].wire.coming > 0 {
		return false
	}
	s := d.machine.Status(d.moment())[0]
	rec, err := pool.ParseRecord(p.server.Record(s.Worker))
	return s.Held && s.Lo > s.Hi && err == nil && rec.Lo == s.Lo && rec.Mark == s.Hi
}

// forgetHeir stops a daemon that has just extended a reservation whose time comes soon, until another one
// has got its worker id and that is forgotten. Its last write is then so old that it only just must watch.
func (p *casPool) forgetHeir(d *daemon, ch pool.Change) {
	w := p.w
	if !p.heirs || w.calm || d.paused || w.now < p.sheltered() || w.now < p.farUntil {
		return
	}
	soon := func(text string) bool {
		rec, err := pool.ParseRecord(text)
		wait := rec.Lo - start - w.now
		return err == nil && rec.Owner != "" && rec.Mark < rec.Lo && 0 < wait && wait < watch
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(ch.Set)), soon) {
		return
	}
	p.heirs = false
	away := watch + timeout/4 + w.upTo(timeout/2)
	d.pause(away)
	p.quiet = w.now + away + watch
	state := p.server.Save()
	p.server.Expire()
	for _, x := range w.daemons {
		if x != d {
			x.restart(0)
		}
	}
	w.after(away-1, func() {
		p.spared, d.cutOff, w.unreachable = d, 0, 0
		p.restore(&state)
		p.spared = nil
	})
}
