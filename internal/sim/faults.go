package sim

import (
	"time"

	"github.com/katsubushi/katsubushi/workerid"
)

// fault lets something go wrong, and sees to the next time.
func (w *world) fault() {
	if w.calm {
		return
	}
	if w.Weather == Bridged {
		w.bridged()
		return
	}
	w.Faults++
	d := w.daemons[w.rand.IntN(len(w.daemons))]
	switch w.rand.IntN(10) {
	case 0: // kill -9, and a supervisor that starts it again, at once or late
		if d.up && !d.isCopy {
			d.kill()
			w.after(w.upTo([]int64{5, 2 * lease}[w.rand.IntN(2)]), d.boot)
		}
	case 1: // a clean stop
		if d.up && !d.paused && !d.isCopy {
			d.step(workerid.Stop{})
		}
	case 2: // SIGSTOP, or a host that is moved
		if d.up && !d.paused {
			d.paused = true
			life := d.life
			w.after(w.upTo(3*lease), func() {
				if life == d.life {
					d.resume()
				}
			})
		}
	case 3: // a clock that is stepped a little
		d.offset += w.upTo(6000) - 3000
	case 4: // or far
		d.offset = w.upTo(2*time.Hour.Milliseconds()) - time.Hour.Milliseconds()
	case 5: // or set right
		d.offset, d.drift = 0, 0
	case 6:
		d.drift = (w.rand.Float64() - 0.5) / 500
	case 7:
		w.skew = w.upTo(2*maxSkew) - maxSkew
	case 8: // a partition of one, or of the store from all
		if w.chance(2) {
			d.cutOff = w.now + w.upTo(2*lease)
		} else {
			w.unreachable = w.now + w.upTo(2*lease)
		}
	case 9:
		if d.up && !d.paused && !d.isCopy && w.chance(3) {
			w.copyOf(d)
		}
	}
	w.after(500+w.upTo(6000), w.fault)
}

// bridged lets the store be away for less than half a lease, and then be there for as long.
func (w *world) bridged() {
	w.Faults++
	w.unreachable = w.now + w.upTo(lease/2-timeout)
	w.after(lease, w.fault)
}

// calmDown ends all faults, and mends what they did.
func (w *world) calmDown() {
	w.calm, w.unreachable, w.skew = true, 0, 0
	originals := w.daemons[:w.Daemons]
	for _, copied := range w.daemons[w.Daemons:] {
		copied.kill()
	}
	w.daemons = originals
	for _, d := range originals {
		d.cutOff, d.offset, d.drift = 0, 0, 0
		if d.paused {
			d.resume()
		}
		d.boot()
	}
}
