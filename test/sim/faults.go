package sim

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// fault lets something go wrong, and sees to the next time.
func (w *world) fault() {
	if w.calm {
		return
	}
	if w.Weather == Bridged {
		w.Faults++
		w.store.bridged()
		w.after(lease, w.fault)
		return
	}
	w.Faults++
	if w.Store.isPool() || w.chance(2) {
		w.store.fault()
	} else {
		w.daemonFault()
	}
	w.after(500+w.upTo(6000), w.fault)
}

// daemonFault is a fault of a daemon, of its host or of the network.
func (w *world) daemonFault() {
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	switch w.rand.IntN(10) {
	case 0: // kill -9, and a supervisor that starts it again, at once or late
		d.restart(w.upTo([]int64{5, 2 * lease}[w.rand.IntN(2)]))
	case 1: // a clean stop
		if d.up && !d.paused && !d.isCopy {
			d.step(workerid.Stop{})
		}
	case 2: // SIGSTOP, or a host that is moved
		if d.up && !d.paused {
			d.pause(w.upTo(3*lease), nil)
		}
	case 3: // a clock that is stepped a little
		d.offset += w.upTo(6000) - 3000
		d.repaired()
	case 4: // or far
		d.offset = w.upTo(2*time.Hour.Milliseconds()) - time.Hour.Milliseconds()
		d.repaired()
	case 5: // or set right
		d.offset, d.drift = 0, 0
	case 6:
		d.drift = (w.rand.Float64() - 0.5) / 500
	case 7:
		w.store.fault()
	case 8: // a partition of one, or of the store from all
		if w.chance(2) {
			d.cutOff = w.now + w.upTo(2*lease)
		} else {
			w.unreachable = w.now + w.upTo(2*lease)
		}
	case 9:
		// Request ids tell copies apart. A store that loses them cannot, and nobody promises
		// that.
		if w.Store != Losing && d.up && !d.paused && !d.isCopy && w.chance(3) {
			w.copyOf(d)
			if w.chance(2) {
				d.pause(w.upTo(lease), workerid.Stop{})
			}
		}
	}
}

// pause stops the process for a time, and may tell it something as soon as it runs again.
func (d *daemon) pause(ms int64, then workerid.Event) {
	d.paused = true
	life := d.life
	d.w.after(ms, func() {
		if life != d.life {
			return
		}
		d.resume()
		if then != nil {
			d.step(then)
		}
	})
}

// sleep is what happens when the host is suspended: the process's timers do not run meanwhile.
func (d *daemon) sleep(ms int64) {
	d.pause(ms, nil)
	d.asleep = d.w.now
}

// stand lets the process, or its host, stand still.
func (d *daemon) stand(ms int64) {
	if d.w.chance(2) {
		d.pause(ms, nil)
	} else {
		d.sleep(ms)
	}
}

// misfortunes come together with a loss, so that it meets those whom it can hurt: a daemon that was
// away is back, others are away and issue to the end of their windows, others are newcomers.
func (w *world) misfortunes() {
	if w.Weather == Bridged || w.calm || w.chance(3) {
		return
	}
	back := w.daemons[w.rand.IntN(len(w.daemons))]
	for _, d := range w.daemons {
		if d.up && (d.paused || d.cutOff > w.now) {
			back = d
		}
	}
	if w.chance(2) {
		back = nil
	}
	for _, d := range w.daemons {
		switch {
		case !d.up || d.isCopy:
		case d == back:
			d.cutOff = 0
			d.resume()
			if w.chance(3) {
				d.step(workerid.Stop{})
			}
		case w.chance(2):
			d.cutOff = w.now + lease/2 + w.upTo(3*lease/2)
			d.setBack(w.upTo(1000))
		case w.chance(2):
			ms := []int64{w.upTo(50), w.upTo(50), lease + w.upTo(2000), w.upTo(2 * lease)}[w.rand.IntN(4)]
			d.restart(ms)
			d.setBack(ms + w.upTo(2000))
		}
	}
}

// restart kills a daemon that is up, and starts it again after ms.
func (d *daemon) restart(ms int64) {
	if d.up && !d.isCopy && d.w.now >= d.sheltered {
		d.kill()
		d.w.after(ms, d.boot)
	}
}

// setBack lets the daemon's clock be set back in some time, or not.
func (d *daemon) setBack(ms int64) {
	if d.w.chance(2) {
		d.w.after(ms, func() {
			if !d.w.calm {
				d.offset -= d.w.upTo(3000)
				d.repaired()
			}
		})
	}
}

// repaired sees to it that the clock is soon right again: until then the store talks to nobody else.
func (d *daemon) repaired() {
	d.w.after(d.w.upTo(lease), func() { d.offset, d.drift = 0, 0 })
}

// calmDown ends all faults, and mends what they did.
func (w *world) calmDown() {
	w.calm, w.unreachable, w.answersLost = true, 0, 0
	w.store.calm()
	originals := w.daemons[:w.Daemons]
	for _, copied := range w.daemons[w.Daemons:] {
		copied.kill()
	}
	w.daemons = originals
	for _, d := range originals {
		d.cutOff = 0
		if w.Weather == Storm {
			d.offset, d.drift = 0, 0
		}
		if d.paused {
			d.resume()
		}
		d.boot()
	}
}
