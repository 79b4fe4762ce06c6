//go:build chaos && linux

package chaos

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/faketime"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A fault begins at once. What it returns ends it, if it has an end of its own. d is nil for a
// fault of the servers.
type fault struct {
	part   string // what it happens to: at most one fault at a time for each
	name   string
	lasts  time.Duration // up to
	whole  bool          // it always lasts so long
	on     effect
	unless func(setting) bool // where it cannot happen, or outside of the promise
}

// The parts of a daemon, and those of Redis. Faults of server begin only when all servers are there
// and in sync.
const (
	process = "process"
	network = "network"
	clock   = "clock"
	server  = "server"
	data    = "data"
)

// An effect is what a fault does: at once, and at its end, if it has one. The end may say that there is more to come.
type effect func(w *world, d *daemon) (end func() (more time.Duration))

// once is an effect without an end.
func once(do func(w *world, d *daemon)) effect {
	return func(w *world, d *daemon) func() time.Duration {
		do(w, d)
		return nil
	}
}

// lasting is an effect with one end.
func lasting(begin, end func(w *world, d *daemon)) effect {
	return func(w *world, d *daemon) func() time.Duration {
		begin(w, d)
		return then(func() { end(w, d) })
	}
}

// onWays is an effect on all that lies between a daemon and the servers.
func onWays(begin, end func(p *redistest.Proxy)) effect {
	return lasting(func(_ *world, d *daemon) { d.everyWay(begin) }, func(_ *world, d *daemon) { d.everyWay(end) })
}

// oneWay is what happens to the requests, or to the answers.
func oneWay(way func(*redistest.Proxy, redistest.Mode), m redistest.Mode) effect {
	return onWays(func(p *redistest.Proxy) { way(p, m) }, func(p *redistest.Proxy) {
		if m == redistest.Drop {
			p.Cut() // no stream goes on behind a hole
		}
		way(p, redistest.Pass)
	})
}

func pause(_ *world, d *daemon)  { d.Pause(d.t) }
func resume(_ *world, d *daemon) { d.Resume(d.t) }

// then makes an end of what has only one stage.
func then(end func()) func() time.Duration {
	return func() time.Duration {
		end()
		return 0
	}
}

var daemonFaults = []fault{
	{part: process, name: "kill -9 of a daemon, and restart", lasts: lease,
		on: lasting(func(_ *world, d *daemon) { d.end(syscall.SIGKILL) }, func(_ *world, d *daemon) { d.start() })},
	{part: process, name: "clean stop of a daemon, and restart", lasts: lease,
		on: lasting(func(w *world, d *daemon) {
			d.Signal(d.t, syscall.SIGTERM) // it drains while the clients are at it
			if w.rand.IntN(2) == 0 {
				w.newcomers(d)
			}
		}, func(_ *world, d *daemon) {
			d.end(syscall.SIGTERM)
			d.start()
		})},
	{part: process, name: "SIGSTOP of a daemon", lasts: 3 * lease, on: lasting(pause, resume)},
	{part: process, name: "SIGSTOP of a daemon for three leases", lasts: 3 * lease, whole: true,
		on: lasting(pause, resume)},
	{part: process, name: "a copy of a program's memory goes on beside it", unless: unkept,
		on: once(func(_ *world, d *daemon) {
			if d.version().library && d.served() {
				d.Signal(d.t, syscall.SIGUSR1)
			}
		})},
	{part: network, name: "requests to the servers held", lasts: 2 * lease, unless: serverless,
		on: oneWay((*redistest.Proxy).Requests, redistest.Hold)},
	{part: network, name: "answers of the servers held", lasts: 2 * lease, unless: serverless,
		on: oneWay((*redistest.Proxy).Answers, redistest.Hold)},
	{part: network, name: "requests to the servers dropped", lasts: 2 * lease, unless: serverless,
		on: oneWay((*redistest.Proxy).Requests, redistest.Drop)},
	{part: network, name: "answers of the servers dropped", lasts: 2 * lease, unless: serverless,
		on: oneWay((*redistest.Proxy).Answers, redistest.Drop)},
	{part: network, name: "servers slow for a daemon", lasts: 2 * lease, unless: serverless,
		on: lasting(func(w *world, d *daemon) {
			by := w.between(0, 1500*time.Millisecond)
			d.everyWay(func(p *redistest.Proxy) { p.Delay(by) })
		}, func(_ *world, d *daemon) { d.everyWay(func(p *redistest.Proxy) { p.Delay(0) }) })},
	{part: network, name: "connections to the servers cut and refused", lasts: 2 * lease, unless: serverless,
		on: lasting(func(w *world, d *daemon) {
			d.refused = true
			w.servers.doors(w)
		}, func(w *world, d *daemon) {
			d.refused = false
			w.servers.doors(w)
		})},
	{part: clock, name: "wall clock of a daemon moved, and back", lasts: 2 * lease, unless: restored,
		on: func(w *world, d *daemon) func() time.Duration {
			by := w.oneOf(50*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond, 3*time.Second, time.Minute, time.Hour)
			if w.files != nil && !d.served() {
				return nil // the first id would be of then, and no other worker id is there until then
			}
			w.note("%s: by %v", d.name, by)
			return then(w.step(d.Clock, by))
		}},
}

// unkept: copies are outside of the promise where the store forgets what one of the two has written. State directories
// have copies of their own.
func unkept(s setting) bool { return s.forgets || s.kind == "" && !s.keeps || serverless(s) }

func serverless(s setting) bool { return s.kind == "files" }

// oneOf is one of some lengths of time, forward or back.
func (w *world) oneOf(lengths ...time.Duration) time.Duration {
	by := lengths[w.rand.IntN(len(lengths))]
	if w.rand.IntN(2) == 0 {
		by = -by
	}
	return by
}

// step moves a process's wall clock, if it has one that can be moved, and returns what moves it
// back. The clock ends with its process; the next one has its host's.
func (w *world) step(clock *faketime.Process, by time.Duration) (back func()) {
	if clock == nil {
		return func() {}
	}
	move := func(by time.Duration) {
		if err := clock.Step(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
			w.t.Errorf("a clock cannot be moved: %v", err)
		}
	}
	move(by)
	return func() { move(-by) }
}
