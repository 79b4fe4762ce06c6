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
	p.save()
	if w.Store == PoolRestores && w.chance(6) {
		p.restore()
		return
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
			d.pause(w.upTo(3*lease), nil)
		}
	case 3:
		d.offset = w.upTo(redisSkew) - redisSkew/2
	case 4:
		if w.Store == PoolClocks {
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
		if w.Store == PoolClones && d.up && !d.paused && !d.isCopy {
			w.copyOf(d)
			if w.chance(2) {
				d.pause(w.upTo(lease), nil)
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
func (p *casPool) restore() {
	w := p.w
	var old []saved
	for _, s := range p.saved {
		if s.at < w.now-watch-timeout {
			old = append(old, s)
		}
	}
	if len(old) == 0 {
		return
	}
	to := old[w.rand.IntN(len(old))]
	if w.chance(2) {
		to = old[len(old)-1]
	}
	witness := p.witness(to.state)
	p.server.Restore(to.state)
	if witness == nil || w.chance(6) {
		p.restored()
	} else {
		witness.sheltered, witness.cutOff, w.unreachable = w.now+2*watch, 0, 0
	}
	for _, d := range w.daemons { // who was away is back, or others leave
		switch {
		case d == witness || !d.up || d.isCopy:
		case w.chance(4):
			d.cutOff = 0
			d.resume()
		case w.chance(4):
			d.cutOff = w.now + w.upTo(2*lease)
		case w.chance(4):
			d.restart(w.upTo([]int64{50, lease}[w.rand.IntN(2)]))
		}
	}
	if w.chance(3) { // a second one, soon
		w.after(w.upTo(2*lease), func() {
			if !w.calm && w.now >= p.sheltered() {
				p.restore()
			}
		})
	}
}

// witness is a daemon that runs and holds a worker id whose record a State does not have as it is.
func (p *casPool) witness(s memcas.State) *daemon {
	for _, i := range p.w.rand.Perm(len(p.w.daemons)) {
		d := p.w.daemons[i]
		c := p.clients[d]
		if !d.up || d.paused || d.isCopy || c == nil || c.life != d.life {
			continue
		}
		for worker := uint64(1); worker <= uint64(p.w.Workers); worker++ {
			text := p.server.Record(worker)
			if rec, err := pool.ParseRecord(text); err == nil && text != s.Of(worker) && c.session.Holds(rec.Owner, worker, text) {
				return d
			}
		}
	}
	return nil
}

// restored is what the restore procedure tells operators to do.
func (p *casPool) restored() {
	m := p.server.Meta()
	m.Epoch = p.token()
	m.Floor = max(m.Floor, start+p.w.now+lease+poolEpsilon)
	p.server.SetMeta(m)
}

// bridged lets something go wrong that a lease is there to bridge.
func (p *casPool) bridged() {
	w := p.w
	switch w.rand.IntN(4) {
	case 0:
		p.server.Expire()
	case 1:
		p.server.Break()
	default:
		w.unreachable = w.now + w.upTo(lease-watch-heartbeat-heartbeat/10-timeout-500)
	}
	if w.chance(2) {
		w.answersLost = w.now + w.upTo(2000)
	}
}

// calm mends everything, as people would.
func (p *casPool) calm() {
	for _, d := range p.w.daemons {
		d.sheltered = 0
		if p.w.Store == PoolClocks { // its last ids may lie in the future
			d.restart(0)
		}
	}
	m := p.server.Meta()
	if now := start + p.w.now; m.Floor > now+lease+2*poolEpsilon { // lease reset-clock
		m.Epoch, m.Floor = p.token(), now+lease+poolEpsilon
		p.server.SetMeta(m)
	}
}
