package sim

import (
	"errors"

	"github.com/katsubushi/katsubushi/workerid"
)

var errTimeout = errors.New("no answer in time")

// call sends something to the store. carryOut is done there, if the request arrives, however late; its result, answer, is done when the
// reply arrives in time. After the time-out the answer is failed's.
func (d *daemon) call(carryOut func() (answer func() workerid.Event), failed func(error) workerid.Event) {
	w, life := d.w, d.life
	d.calls++
	id := d.calls
	d.pending[id] = failed
	d.timeOut(id, timeout)
	if d.lost() {
		return
	}
	w.after(w.latency(), func() {
		if d.lost() {
			return
		}
		answer := carryOut()
		if d.lost() || life != d.life {
			return
		}
		d.later(w.latency(), func() {
			if _, waiting := d.pending[id]; waiting {
				delete(d.pending, id)
				d.step(answer())
			}
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
	return w.now < w.unreachable || w.now < d.cutOff || w.Weather == Storm && !w.calm && w.chance(30)
}

// latency is how long a packet takes, ms: little as a rule, at times longer than anybody waits.
func (w *world) latency() int64 {
	if w.Weather == Storm && !w.calm && w.chance(20) {
		return w.upTo(4 * timeout)
	}
	return w.upTo(5)
}

func (d *daemon) acquire(e workerid.Acquire) {
	token := d.w.token()
	d.call(func() func() workerid.Event {
		g, err := d.w.pool.Acquire(e.Request, token)
		return func() workerid.Event {
			if err == nil {
				d.client.Acquired(g, token)
			}
			return workerid.Acquired{Lane: e.Lane, Grant: g, Err: err}
		}
	}, func(err error) workerid.Event { return workerid.Acquired{Lane: e.Lane, Err: err} })
}

func (d *daemon) extend(e workerid.Extend) {
	requests := d.client.Extending(e.Held)
	d.call(func() func() workerid.Event {
		results := d.w.pool.Extend(requests)
		return func() workerid.Event {
			d.client.Extended(requests, results)
			return workerid.Extended{Results: results}
		}
	}, func(err error) workerid.Event { return workerid.Extended{Err: err} })
}

func (d *daemon) release(e workerid.Release) {
	known := d.client.Releasing(e.Grant)
	d.call(func() func() workerid.Event {
		err := d.w.pool.Release(e.Grant, e.Last, known)
		return func() workerid.Event { return workerid.Released{Lane: e.Lane, Err: err} }
	}, func(err error) workerid.Event { return workerid.Released{Lane: e.Lane, Err: err} })
}
