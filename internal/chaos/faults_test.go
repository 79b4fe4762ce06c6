//go:build chaos && linux

package chaos

import (
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/internal/redistest"
)

// A fault of a daemon begins at once; what it returns ends it, if it has an end of its own. lasts is up to how long.
type fault struct {
	name  string
	lasts time.Duration
	on    func(w *world, d *daemon) (heal func())
}

var daemonFaults = []fault{
	{"kill -9 of a daemon, and restart", lease, func(w *world, d *daemon) func() {
		d.end(syscall.SIGKILL)
		return d.start
	}},
	{"clean stop of a daemon, and restart", lease, func(w *world, d *daemon) func() {
		d.cmd.Process.Signal(syscall.SIGTERM) // it drains while the clients are at it
		return func() {
			d.end(syscall.SIGTERM)
			d.start()
		}
	}},
	{"SIGSTOP of a daemon", 3 * lease, func(w *world, d *daemon) func() {
		d.cmd.Process.Signal(syscall.SIGSTOP)
		return func() { d.cmd.Process.Signal(syscall.SIGCONT) }
	}},
	{"requests to Redis held", 2 * lease, func(w *world, d *daemon) func() {
		d.proxy.Requests(redistest.Hold)
		return func() { d.proxy.Requests(redistest.Pass) }
	}},
	{"answers of Redis held", 2 * lease, func(w *world, d *daemon) func() {
		d.proxy.Answers(redistest.Hold)
		return func() { d.proxy.Answers(redistest.Pass) }
	}},
	{"requests to Redis dropped", 2 * lease, func(w *world, d *daemon) func() {
		d.proxy.Requests(redistest.Drop)
		return func() { // no stream goes on behind a hole
			d.proxy.Cut()
			d.proxy.Requests(redistest.Pass)
		}
	}},
	{"answers of Redis dropped", 2 * lease, func(w *world, d *daemon) func() {
		d.proxy.Answers(redistest.Drop)
		return func() {
			d.proxy.Cut()
			d.proxy.Answers(redistest.Pass)
		}
	}},
	{"Redis slow for a daemon", 2 * lease, func(w *world, d *daemon) func() {
		d.proxy.Delay(time.Duration(w.rand.Int64N(int64(1500 * time.Millisecond))))
		return func() { d.proxy.Delay(0) }
	}},
	{"connections to Redis cut and refused", 2 * lease, func(w *world, d *daemon) func() {
		w.refusing[d] = true
		d.proxy.Refuse(true)
		d.proxy.Cut()
		return func() {
			w.refusing[d] = false
			d.proxy.Refuse(false)
		}
	}},
	{"wall clock of a daemon moved, and back", 2 * lease, func(w *world, d *daemon) func() {
		steps := []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second, time.Minute, time.Hour}
		by := steps[w.rand.IntN(len(steps))]
		if w.rand.IntN(2) == 0 {
			by = -by
		}
		moving := d.clock
		if moving == nil {
			return nil
		}
		w.step(d, moving, by)
		return func() { w.step(d, moving, -by) }
	}},
}

// redisFaults happen to the whole fleet, one at a time.
var redisFaults = []fault{
	{"kill -9 of the master, fail-over, its return", lease / 2, func(w *world, _ *daemon) func() {
		s := w.redis
		was, before := s.master, s.failovers
		was.Kill()
		s.killed = was
		// Its return waits until another one is master: it has lost everything, and must not serve for a moment.
		return func() {
			for deadline := time.Now().Add(5 * lease); s.failovers == before && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				w.follow()
			}
			if s.failovers == before {
				w.note("Sentinel has found no new master: the old one comes back, empty")
			}
			w.revive()
		}
	}},
	{"SIGSTOP of Redis", 0, func(w *world, _ *daemon) func() {
		w.redis.master.Pause()
		time.Sleep(time.Duration(w.rand.IntN(350)) * time.Millisecond) // Sentinel would take it for dead after 500 ms
		w.redis.master.Resume()
		return nil
	}},
	{"FLUSHALL", 0, func(w *world, _ *daemon) func() {
		w.command("FLUSHALL")
		return nil
	}},
	{"CLIENT PAUSE of writes", 0, func(w *world, _ *daemon) func() {
		w.command("CLIENT", "PAUSE", 200+w.rand.IntN(3000), "WRITE") // of all commands: Sentinel's too, and it would take it for dead
		return nil
	}},
}

// step moves a daemon's wall clock.
func (w *world) step(d *daemon, moving interface{ Step(time.Duration) error }, by time.Duration) {
	if err := moving.Step(by); err != nil {
		w.t.Errorf("%s: its clock cannot be moved: %v", d.name, err)
	}
}

// command is carried out by the master.
func (w *world) command(args ...any) {
	if _, err := w.redis.ask[w.redis.master](args...); err != nil {
		w.note("%v: %v", args, err)
	}
}
