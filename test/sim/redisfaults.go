package sim

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// fault lets something go wrong with Redis.
func (r *redis) fault() {
	w := r.w
	x := r.servers[w.rand.IntN(len(r.servers))]
	switch w.rand.IntN(10) {
	case 0, 1:
		lag, down := w.upTo(2000), w.upTo([]int64{500, 2 * lease}[w.rand.IntN(2)])
		r.failOver(lag, down, w.upTo(lease))
		w.after(lag+down, w.misfortunes)
	case 2:
		if w.Store == Keeping && w.chance(2) {
			r.splitBrain()
		} else {
			r.switchOver(w.upTo(3 * lease))
		}
	case 3:
		x.held = w.now + w.upTo(lease)
	case 4:
		x.stalled = w.now + w.upTo([]int64{1000, lease}[w.rand.IntN(2)])
	case 5:
		r.setClock(x)
	case 6:
		x.saved = x.Keys.Clone()
		if w.Store == Losing && w.chance(2) {
			r.takeAway()
			return
		}
		r.free(1+w.rand.Uint64N(uint64(w.Workers)), 0)
		w.misfortunes()
	case 7:
		if w.Store == Losing {
			r.closeCall()
		} else {
			r.misleadClock(x)
		}
	case 8:
		if w.chance(3) {
			r.misleadNewcomer()
		} else if w.Store == Losing {
			r.wipe(w.rand.IntN(6))
			w.after(w.upTo(3*lease), func() { r.operate(script.InitWait) })
		} else {
			r.misleadClock(x)
		}
	case 9:
		r.comeback()
	}
}

// failOver kills the master, of which its replicas have heard nothing for lag ms. After ms one of
// them is the next one, and the old one comes back to it some time later; or else it is the same
// one again, restarted.
func (r *redis) failOver(lag, ms, back int64) {
	w, s := r.w, r.master
	for _, x := range r.replicas(s) {
		x.held = w.now + lag + 1
	}
	w.after(lag, func() { r.kill(s, ms, back) })
}

func (r *redis) kill(s *server, ms, back int64) {
	w := r.w
	if !s.up || s != r.master || w.calm {
		return
	}
	s.up = false
	s.life++
	for _, x := range r.replicas(s) {
		x.attached++ // what is under way to it is lost
	}
	w.after(ms, func() {
		if r.master != s || s.up {
			return
		}
		next := r.candidate(s)
		if next == nil || w.chance(4) {
			r.restart(s)
			r.promote(s)
			return
		}
		r.promote(next)
		w.after(back, func() {
			if !s.up {
				r.restart(s)
				r.follow(s, r.master)
			}
		})
	})
}

// candidate is a server that could take over, or nil.
func (r *redis) candidate(from *server) *server {
	for _, i := range r.w.rand.Perm(len(r.servers)) {
		if x := r.servers[i]; x != from && x.up {
			return x
		}
	}
	return nil
}

// restart starts a server again, with its data, with older ones or with none.
func (r *redis) restart(s *server) {
	s.up, s.Run, s.Replica, s.of = true, r.id(), false, nil
	if r.w.Store == Keeping {
		return
	}
	switch r.w.rand.IntN(3) {
	case 0:
		s.Keys = s.saved.Clone()
	case 1:
		s.Keys = redismodel.Keys{}
	}
}

// switchOver makes a replica the master, whatever it has by now, while the master stays up and
// follows it, or hears nothing of it at all. In the latter case it is the master again after ms,
// and nothing of it has changed but its replication id.
func (r *redis) switchOver(ms int64) {
	w, s := r.w, r.master
	x := r.candidate(s)
	if x == nil || !s.up {
		return
	}
	s.Replica = true
	r.promote(x)
	if w.chance(2) {
		return
	}
	s.of = nil
	w.after(ms, func() {
		switch {
		case !s.up || r.master == s || w.calm:
		case x.up && r.master == x:
			x.Replica = true
			r.promote(s)
			w.misfortunes()
		default:
			r.follow(s, r.master)
		}
	})
}

// splitBrain makes a replica the master while the master takes itself for one until later.
func (r *redis) splitBrain() {
	w, s := r.w, r.master
	x := r.candidate(s)
	if x == nil || !s.up {
		return
	}
	r.promote(x)
	w.after(w.upTo(2*lease), func() {
		if s.up && r.master != s {
			r.follow(s, r.master)
		}
	})
}

// wipe loses keys on the master, and so on its replicas.
func (r *redis) wipe(what int) {
	r.lose(what)
	r.setClock(r.master) // it is another machine, perhaps
	r.w.misfortunes()
}

func (r *redis) lose(what int) {
	s := r.master
	r.run(s, func() {
		if r.w.calm { // the server stood still until now
			return
		}
		k := &s.Keys
		switch what {
		case 0, 1:
			*k = redismodel.Keys{}
		case 2:
			k.HighWater = nil
		case 3:
			k.Meta = redismodel.Meta{}
		case 4:
			k.IDs = nil
		case 5:
			k.Clients = nil
		}
		r.wrote(s)
	})
}

// closeCall loses the last grants, on the way from a server whose clock is as far ahead as it may
// be to one whose clock is as far behind. Their holders are away. There is a newcomer when the loss
// is noticed, and another when it would be too early to grant what was forgotten: just then his
// clock is set back.
func (r *redis) closeCall() {
	w, lag, down := r.w, int64(2*heartbeat), r.w.upTo(200)
	r.master.skew = redisSkew - 2*usual
	r.failOver(lag, down, w.upTo(lease))
	d := w.daemons[w.rand.IntN(w.Daemons)]
	w.after(lag+down, func() {
		if w.calm {
			return
		}
		for _, s := range r.servers {
			s.skew = -redisSkew + 2*usual
		}
		for _, other := range w.daemons {
			if other != d {
				other.cutOff = w.now + lease + w.upTo(lease/2)
			}
		}
		d.resume()
		d.cutOff, d.offset, d.drift = 0, 0, 0
		d.restart(0)
		w.after(lease+w.upTo(1000), func() { d.restart(0) })
		w.after(lease+w.upTo(2000), func() {
			d.offset = -w.upTo(2000)
			d.repaired()
		})
	})
}

// takeAway lets an operator take a worker id from a daemon that does not hear of it. Somebody else
// asks for one, and then the pool is lost: the first one proves by its window that it had it.
func (r *redis) takeAway() {
	w := r.w
	d, other := w.daemons[w.rand.IntN(w.Daemons)], w.daemons[w.rand.IntN(w.Daemons)]
	win, serves := d.windows[0]
	if d == other || !d.up || d.paused || !serves {
		return
	}
	d.cutOff = w.now + 4*heartbeat
	w.after(heartbeat+w.upTo(heartbeat), func() {
		if !w.calm {
			r.free(win.worker, 0)
			other.restart(w.upTo(100))
		}
	})
	w.after(3*heartbeat, func() {
		if !w.calm {
			r.lose(0)
			d.cutOff = 0
			other.cutOff = w.now + w.upTo(lease)
		}
	})
}

// comeback lets a daemon be away until somebody else has its worker id, and then come back first of
// all after a loss, or only to stop, with newcomers about.
func (r *redis) comeback() {
	w := r.w
	d, other, third := w.daemons[w.rand.IntN(w.Daemons)], w.daemons[w.rand.IntN(w.Daemons)],
		w.daemons[w.rand.IntN(w.Daemons)]
	if d == other || !d.up || d.paused {
		return
	}
	d.cutOff = w.now + 2*lease
	w.after(lease+w.upTo(1000), func() { other.restart(w.upTo(100)) })
	w.after(lease+3000+w.upTo(2000), func() {
		if w.calm || !d.up || d.paused {
			return
		}
		d.cutOff = 0
		if w.Store == Keeping || w.chance(2) {
			d.step(workerid.Stop{})
			if third != other {
				third.restart(w.upTo(500))
			}
			return
		}
		for _, x := range w.daemons {
			if x != d {
				x.cutOff = w.now + w.upTo(lease)
			}
		}
		r.lose(w.rand.IntN(2))
	})
}

// misleadClock sets a server's clock beyond what it may be off by, alone or together with a
// daemon's. When it is set right again, somebody accepts that.
func (r *redis) misleadClock(x *server) {
	w := r.w
	x.skew = w.upTo(2*time.Hour.Milliseconds()) - time.Hour.Milliseconds()
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	// what is granted for that future must be over in the end
	if w.chance(2) && w.now < int64(w.Minutes)*time.Minute.Milliseconds()/2 {
		x = r.master
		x.skew = w.upTo(15*lease) - lease
		d.offset, d.drift = x.skew, 0
	}
	w.after(2*heartbeat+w.upTo(lease), func() {
		if w.calm {
			return
		}
		d.offset = 0
		r.setClock(x)
		w.after(w.upTo(lease/2), func() {
			if w.calm || r.master.Keys.Meta.Seen <= r.clock(r.master)+redisSkew {
				return
			}
			r.resetClock()
			// the daemon has extended again, and is not heard of until others are granted worker
			// ids
			w.after(2*heartbeat, func() {
				d.cutOff = w.now + 2*lease
				for _, other := range w.daemons[:w.Daemons] {
					if other != d && w.chance(2) {
						other.restart(lease + w.upTo(lease))
					}
				}
			})
		})
	})
}

// misleadNewcomer sets the master's clock far ahead for a moment, and so that of a host on which
// just then a daemon starts and an operator takes a worker id away. That must not stop the others.
func (r *redis) misleadNewcomer() {
	w, s := r.w, r.master
	d, k := w.daemons[w.rand.IntN(w.Daemons)], &s.Keys
	held, others := 0, false
	for worker := range k.Clients {
		if int64(k.IDs[worker]*1000) > k.Meta.Seen {
			held++
		}
	}
	for _, x := range w.daemons {
		others = others || x != d && x.offset > lease
	}
	if held < 2 || others || d.isCopy || k.Meta.Seen == 0 || k.Meta.Jump != 0 || k.Meta.Seen > start+w.now+redisSkew {
		return
	}
	life, ahead := s.life, 2*lease+w.upTo(time.Hour.Milliseconds())
	s.skew, d.offset, d.drift = ahead, ahead, 0
	d.restart(0)
	if w.chance(2) {
		r.free(1+w.rand.Uint64N(uint64(w.Workers)), ahead)
	}
	w.after(lease/2+w.upTo(lease/2-1), func() {
		d.offset = 0
		if s.life != life || s.skew != ahead {
			return // something else became of it
		}
		if s.Keys.Meta.Seen > start+w.now+lease {
			w.Misled++
		}
		r.setClock(s)
	})
}

// bridged lets something go wrong that holders need not notice: they extend again, or prove that
// nobody else can have their worker ids, while more than epsilon is left of their windows.
func (r *redis) bridged() {
	const short = lease - 4*redisSkew - 1000 - 2*heartbeat - 2*timeout
	w, s := r.w, r.master
	switch w.rand.IntN(6) {
	case 0:
		r.failOver(w.upTo(500), w.upTo(short), w.upTo(500))
	case 1:
		r.switchOver(0)
	case 2:
		s.stalled = w.now + w.upTo(short)
	case 3:
		w.unreachable = w.now + w.upTo(short)
	default:
		if w.Store == Losing {
			r.wipe(w.rand.IntN(5)) // without owners, holders give up: see the scripts' own tests
		}
	}
}

// calm mends everything, as people would.
func (r *redis) calm() {
	for _, s := range r.servers {
		s.skew, s.stalled, s.held = 0, 0, 0
		if !s.up {
			s.up, s.Run = true, r.id()
			s.Replica = s != r.master
		}
	}
	r.promote(r.master)
	for _, s := range r.servers {
		if s != r.master && s.of != r.master {
			r.follow(s, r.master)
		}
	}
	if r.master.Keys.Meta.Seen > r.clock(r.master) {
		r.resetClock()
	}
	r.operate(script.InitWait)
}
