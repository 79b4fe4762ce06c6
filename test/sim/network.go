package sim

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// usual is how long a packet takes at most, as a rule, in ms.
const usual = 5

// slow is how long it takes at most that a daemon whose witness counts is just quick enough.
const slow = 300

var errTimeout = errors.New("no answer in time")

// call sends something to the store. carryOut is done there, if the request arrives, however late;
// its answer is heard when the reply arrives in time. After the time-out the answer is failed's.
func (d *daemon) call(carryOut request, failed func(error) workerid.Event) {
	w, life := d.w, d.life
	d.calls++
	id := d.calls
	d.pending[id] = failed
	d.timeOut(id, timeout)
	if d.lost() {
		return
	}
	w.after(d.handOver(), func() {
		if d.lost() {
			return
		}
		carryOut(func(a answer) {
			if d.lost() || life != d.life {
				return
			}
			d.later(d.handOver(), func() {
				_, waiting := d.pending[id]
				delete(d.pending, id)
				if e := a(waiting); waiting {
					d.sharedAnswer(id, e)
					d.step(e)
				}
			})
		})
	})
}

func (d *daemon) timeOut(id int, ms int64) {
	d.later(ms, func() {
		if failed, waiting := d.pending[id]; waiting {
			delete(d.pending, id)
			d.step(failed(errTimeout))
		}
	})
}

// lost says whether a packet between the daemon and the store gets lost now.
func (d *daemon) lost() bool {
	w := d.w
	if w.now < d.sheltered {
		return false
	}
	return w.now < w.unreachable || w.now < d.cutOff || w.Weather == Storm && !w.calm && w.chance(30)
}

// handOver is how long a call, or its answer, is on its way within a daemon, ms.
func (d *daemon) handOver() int64 {
	if d.w.now < d.sheltered {
		return d.w.upTo(usual)
	}
	return d.w.latency()
}

// latency is how long a packet of a daemon takes, ms.
func (d *daemon) latency() int64 {
	if d.w.now < d.sheltered {
		return d.w.upTo(slow)
	}
	return d.w.latency()
}

// latency is how long a packet takes, ms: little as a rule, at times longer than anybody waits.
func (w *world) latency() int64 {
	if w.Weather == Storm && !w.calm && w.chance(20) {
		return w.upTo(4 * timeout)
	}
	return w.upTo(usual)
}

func (d *daemon) acquire(e workerid.Acquire) {
	d.call(d.client.acquire(e), func(err error) workerid.Event { return workerid.Acquired{Lane: e.Lane, Err: err} })
}

func (d *daemon) extend(e workerid.Extend) {
	d.call(d.client.extend(e), func(err error) workerid.Event { return workerid.Extended{Err: err} })
}

func (d *daemon) release(e workerid.Release) {
	d.call(d.client.release(e), func(err error) workerid.Event { return workerid.Released{Lane: e.Lane, Err: err} })
}
