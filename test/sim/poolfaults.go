package sim

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// fault lets something go wrong with the store or its daemons.
func (p *casPool) fault() {
	w := p.w
	if w.now < p.quiet {
		return
	}
	p.save()
	if w.Faults == Restores && w.now >= p.sheltered() {
		switch w.rand.IntN(16) {
		case 9:
			p.forgetReservations()
			return
		case 4:
			p.wipe()
			return
		case 5:
			p.stopBeforeWrite()
			return
		case 6:
			if w.chance(3) { // it takes long
				p.wipeTwice()
				return
			}
		case 7:
			p.forgetAfterRaise()
			return
		case 8:
			p.heirs = true
			return
		case 0:
			p.restore(nil)
			return
		case 1:
			p.forgetNewcomers()
			return
		case 2:
			p.forgetSuccessor()
			return
		case 3:
			p.shortJump()
			return
		}
	}
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	if w.now < d.sheltered {
		return
	}
	switch w.rand.IntN(12) {
	case 0:
		d.restart(w.upTo([]int64{5, 2 * lease}[w.rand.IntN(2)]))
	case 1:
		if d.up && !d.paused && !d.isCopy {
			d.step(workerid.Stop{})
		}
	case 2:
		if d.up && !d.paused {
			d.stand(w.upTo(3 * lease))
		}
	case 3:
		d.offset = w.upTo(skew) - skew/2
	case 4:
		if w.Faults == Clocks {
			far := []int64{time.Hour.Milliseconds(), 365 * 24 * time.Hour.Milliseconds()}[w.rand.IntN(2)]
			d.offset = w.upTo(2*far) - far
			d.repaired()
		}
	case 5:
		d.cutOff = w.now + w.upTo([]int64{lease / 2, 2 * lease, 5 * lease}[w.rand.IntN(3)])
	case 6:
		if w.now >= p.sheltered() {
			w.unreachable = w.now + w.upTo(2*lease)
		}
	case 7:
		p.server.Break()
	case 8:
		p.server.Expire()
	case 9:
		p.free(1 + w.rand.Uint64N(uint64(w.Workers)))
	case 10:
		p.massStart()
	case 11:
		if w.Faults == Clones && d.up && !d.paused && !d.isCopy {
			w.copyOf(d)
			if w.chance(2) {
				d.pause(w.upTo(lease))
			}
		}
	}
}

// sheltered is until when some daemon must reach the store.
func (p *casPool) sheltered() (until int64) {
	for _, d := range p.w.daemons {
		until = max(until, d.sheltered)
	}
	return until
}

// free ends a lease for its owner, as an operator does.
func (p *casPool) free(worker uint64) {
	if rec, err := pool.ParseRecord(p.server.Record(worker)); err == nil && rec.Owner != "" {
		p.server.SetRecord(worker, pool.Record{Mark: rec.Mark, Lo: rec.Lo, Token: p.token()}.String())
	}
}

func (p *casPool) token() string { return "operator." + p.w.requestID() }

// massStart kills most daemons at once.
func (p *casPool) massStart() {
	at := p.w.upTo(2 * lease)
	for _, d := range p.w.daemons {
		if !p.w.chance(3) && p.w.now >= d.sheltered {
			d.restart(at)
		}
	}
}

// save takes a backup now and then.
func (p *casPool) save() {
	p.saved = append(p.saved, saved{p.w.now, p.server.Save()})
	if len(p.saved) > 20 {
		p.saved = p.saved[1+p.w.rand.IntN(15):]
	}
}

// restore brings back a state that is older than a heartbeat of a holder that reaches the store; or
// else an operator says so, before daemons are let in. What is lost is more than the last W.
func (p *casPool) restore(state *memcas.State) {
	w := p.w
	if w.calm || w.now < p.jumped || w.now < p.sheltered() {
		return
	}
	var old []saved
	for _, s := range p.saved {
		if s.at < w.now-watch-timeout {
			old = append(old, s)
		}
	}
	if state == nil {
		if len(old) == 0 {
			return
		}
		state = &old[w.rand.IntN(len(old))].state
		if w.chance(2) {
			state = &old[len(old)-1].state
		}
	}
	witness := p.witness(*state)
	if p.bound != nil {
		witness = p.bound
	}
	if w.now < p.farUntil { // the floor of `lease restored` does not cover what a wrong clock granted
		if witness = p.far; !p.sees(witness, *state) {
			return
		}
	}
	p.server.Restore(*state)
	if witness == nil || w.now >= p.farUntil && p.bound == nil && w.chance(6) {
		p.restored()
	} else {
		witness.sheltered, witness.cutOff, w.unreachable = w.now+2*watch, 0, 0
		if w.now < p.farUntil && w.chance(2) { // it has borne witness, and must use what it has
			w.after(2*watch+1, func() {
				if !w.calm {
					witness.cutOff = w.now + 3*lease
				}
			})
		}
	}
	for _, d := range w.daemons { // who was away is back, others leave, or start
		switch {
		case d == witness || d == p.spared || !d.up || d.isCopy:
		case d.cutOff > w.now && w.chance(2):
			d.cutOff = 0
			d.resume()
		case w.chance(2):
			d.cutOff = w.now + w.upTo(2*lease)
		case w.chance(2):
			d.restart(w.upTo([]int64{50, watch}[w.rand.IntN(2)]))
		}
	}
	if w.chance(2) { // a second one, soon
		again := state
		if w.chance(2) {
			again = nil
		}
		w.after(2*watch+w.upTo(lease), func() { p.restore(again) })
	}
}

// forgetNewcomers restores a state from just before some daemons started. Others of these are away
// from their first reading until then.
func (p *casPool) forgetNewcomers() {
	w, state := p.w, p.server.Save()
	back := watch + timeout + w.upTo(lease/2)
	for _, d := range w.daemons {
		if d.up && !d.isCopy && w.chance(2) {
			d.restart(0)
			if w.chance(3) {
				w.after(50+w.upTo(200), func() {
					if w.now >= d.sheltered && !w.calm { // nothing else has been restored since
						d.cutOff = max(d.cutOff, w.now+back)
					}
				})
			}
		}
	}
	w.after(back, func() { p.restore(&state) })
}

// forgetSuccessor cuts a daemon off until others have its worker ids, and lets it return when that is
// forgotten.
func (p *casPool) forgetSuccessor() {
	w := p.w
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	away := lease + w.upTo(lease)
	d.cutOff = w.now + away
	w.after(timeout, func() {
		state := p.server.Save()
		for _, x := range w.daemons {
			if x != d && w.chance(3) && w.now >= x.sheltered {
				x.restart(w.upTo(lease / 2))
			}
		}
		w.after(away-timeout-1, func() { p.restore(&state) })
	})
}

// stopBeforeWrite stops a daemon that has looked at the clock and is about to write. It goes on when
// others have had its worker ids, and that is forgotten.
func (p *casPool) stopBeforeWrite() {
	w := p.w
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	p.stopAt[d] = func() {
		if w.calm || w.now < p.sheltered() || d.paused {
			return
		}
		away := lease - 2*heartbeat + w.upTo(4*heartbeat)
		d.pause(away)
		state := p.server.Save()
		for _, x := range w.daemons {
			if x != d && w.chance(2) {
				x.restart(w.upTo(lease / 2))
			}
		}
		w.after(away-1, func() { p.restore(&state) })
	}
}

// wipe deletes everything at once while many daemons start, over connections that live on, and lets an
// operator make the pool again.
func (p *casPool) wipe() {
	w := p.w
	if w.now < p.farUntil {
		return
	}
	for _, d := range w.daemons {
		if w.chance(2) {
			d.restart(0)
		}
	}
	w.after(watch+w.upTo(watch), func() { p.makeAgain() })
}

// wipeTwice wipes the pool while no daemon runs. When they have come back, and one is about to write what
// another one takes first, it does so again. Only meta says that.
func (p *casPool) wipeTwice() {
	w := p.w
	if w.now < p.sheltered() || !p.makeAgain() {
		return
	}
	for _, d := range w.daemons {
		d.restart(lease + poolEpsilon + w.upTo(timeout))
	}
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	p.stopAt[d] = func() {
		if !w.calm && !d.paused {
			away := watch/2 + w.upTo(watch/4)
			d.sleep(away)
			w.after(away-1, func() { p.makeAgain() })
		}
	}
}

// makeAgain deletes everything and makes the pool again, over connections that live on.
func (p *casPool) makeAgain() bool {
	w := p.w
	if w.calm || w.now < p.farUntil || w.now < p.sheltered() {
		return false
	}
	m := p.meta()
	m.Epoch, m.Floor = p.token(), start+w.now+lease+poolEpsilon
	p.server.Init(m)
	p.saved = nil
	return true
}

// forgetAfterRaise raises the floor, as operators may at any time, and brings the state of that moment
// back when the floor covers all windows but that of a daemon that is cut off then.
func (p *casPool) forgetAfterRaise() {
	w := p.w
	if w.now < p.farUntil || w.now < p.sheltered() || p.server.Meta().Floor > start+w.now {
		return // few would have a lease
	}
	p.restored()
	p.quiet = w.now + lease + 2*poolEpsilon
	d, state := w.daemons[w.rand.IntN(len(w.daemons))], p.server.Save()
	const early = heartbeat/4 + skew/2 // by their clocks, their last windows end below the floor
	w.after(poolEpsilon-early, func() {
		for _, x := range w.daemons {
			if x != d && !w.calm {
				x.cutOff = w.now + 2*heartbeat + early
			}
		}
	})
	w.after(poolEpsilon+2*heartbeat, func() {
		if w.calm {
			return
		}
		p.spared, d.cutOff = d, w.now+2*lease
		p.restore(&state)
		p.spared = nil
		p.server.Expire()
	})
}

// shortJump lets a daemon's clock be wrong for a moment, in which no restore falls. Its windows reach
// far afterwards.
func (p *casPool) shortJump() {
	w := p.w
	if w.now < p.farUntil { // one at a time must bear witness
		return
	}
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	d.offset = lease + w.upTo(lease)
	p.jumped, p.far, p.farUntil = w.now+2*heartbeat, d, w.now+2*heartbeat+3*lease
	w.after(2*heartbeat, func() { d.offset = 0 })
}

// witness is a daemon that notices that a State is restored, or nil.
func (p *casPool) witness(s memcas.State) *daemon {
	for _, i := range p.w.rand.Perm(len(p.w.daemons)) {
		if p.sees(p.w.daemons[i], s) {
			return p.w.daemons[i]
		}
	}
	return nil
}

// sees says whether a daemon runs and notices that a State was restored. One that an answer from before the
// restore is on its way to may end its lease because of that.
func (p *casPool) sees(d *daemon, s memcas.State) bool {
	c := p.clients[d]
	running := d.up && !d.paused && !d.isCopy && c != nil && c.life == d.life &&
		d.machine.Status(d.moment())[0].State != workerid.Sealed
	if !running || c.wire.coming > 0 {
		return false
	}
	mutated := c.session.Rules
	defer func() { c.session.Rules = mutated }()
	c.session.Rules = poolRules // a mutant must not get out of its duty
	return c.session.Notices(s.View())
}

// restored is what the restore procedure tells operators to do.
func (p *casPool) restored() {
	m := p.server.Meta()
	m.Epoch = p.token()
	m.Floor = max(m.Floor, start+p.w.now+lease+poolEpsilon)
	for worker := m.Min; worker <= m.Max; worker++ {
		rec, _ := pool.ParseRecord(p.server.Record(worker))
		m.Floor = max(m.Floor, rec.Mark)
	}
	p.server.SetMeta(m)
}

// bridged lets something go wrong that a lease is there to bridge.
func (p *casPool) bridged() {
	w, silent := p.w, int64(2000)
	switch w.rand.IntN(6) {
	case 5: // an operator is careful; who has a lease keeps it
		p.restored()
		return
	case 4: // a newcomer comes when all sessions have ended, and again when it is about to choose
		p.server.Expire()
		w.daemons[0].restart(0)
		w.after(watch+w.upTo(200), p.server.Expire)
		if w.chance(2) { // else it would take its own last record: the others reach further
			p.restored()
		}
		silent = withoutSessions
	case 0:
		p.server.Expire()
		silent = withoutSessions
	case 1:
		p.server.Break()
	default:
		// a busy daemon has used its window up to the run-ahead before the window ends
		w.unreachable = w.now + w.upTo(lease-watch-heartbeat-heartbeat/10-timeout-runAhead-100)
	}
	if w.chance(2) {
		w.answersLost = w.now + w.upTo(silent)
	}
}

// withoutSessions is for how long answers may be lost after sessions have ended, ms. Nothing but its writes
// then keeps newcomers away from a holder, and W is for a holder that has lost one answer. One that has
// lost two does not write within W of its last acknowledged write: a newcomer may take its worker id.
const withoutSessions = watch - heartbeat - heartbeat/10 - timeout

// calm mends everything, as people would.
func (p *casPool) calm() {
	for _, d := range p.w.daemons {
		d.sheltered = 0
		if p.w.Faults == Clocks { // its last ids may lie in the future
			d.restart(0)
		}
	}
	m := p.server.Meta()
	if now := start + p.w.now; m.Floor > now+lease+2*poolEpsilon { // lease reset-clock
		m.Epoch, m.Floor = p.token(), now+lease+poolEpsilon
		p.server.SetMeta(m)
	}
}
