package strictsim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/eventqueue"
	"github.com/katsubushi/katsubushi/v3/test/order"
)

// Durations of the world, in ns, as all its times are.
const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// An event is one thing that happens, to a process or to the world.
type event struct {
	p    *process
	busy *bool // the thread of p that it needs; nil = a thread of its own
	f    func()
}

// A World is all there is: hosts, an etcd, the network between them, and clients.
type World struct {
	Requests []order.Request // that were answered
	Stats

	timed  bool // its names are timestamps
	mutant Mutant

	misled bool // the median that a daemon knew was ahead
	rnd    *rand.Rand
	now    int64
	hands  atomic.Int64 // now, for all goroutines
	queue  eventqueue.Queue[event]
	depth  int // of pauses inside of pauses

	board    *board
	hosts    []*host
	names    []*name
	calm     bool  // no more faults
	patience int64 // of daemons that have no value

	mu            sync.Mutex
	entered, left []*forward  // guarded by mu; see settle
	forwards      []*forward  // under way
	probes        int         // that were served
	over          atomic.Bool // no call begins any more
	surplus       map[*sequence]id.Run
	risk          int // one of so many steps is disturbed
	err           error
}

// Stats are what happened in a World.
type Stats struct {
	Events, Terms, Demotes, Answered, Values, Faults, Pauses, Forwards, Moved, Refused int

	Clocks   int // faults of clocks
	Misled   int // samples where a median was ahead
	Furthest int // ms by which the time of an id was ahead at most
}

// fail ends the run.
func (w *World) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %.3f s: %w", float64(w.now)/float64(sec), fmt.Errorf(format, args...))
	}
}

// chance is true once in so many times, as long as there are faults.
func (w *World) chance(of int) bool { return !w.calm && w.rnd.IntN(of) == 0 }

// between returns a time from lo to hi.
func (w *World) between(lo, hi int64) int64 { return lo + w.rnd.Int64N(hi-lo+1) }

// after lets something happen to the world.
func (w *World) after(d int64, f func()) { w.queue.Add(w.now+d, event{f: f}) }

// set lets time pass.
func (w *World) set(now int64) {
	w.now = now
	w.hands.Store(now)
}

// run lets everything happen up to a time.
func (w *World) run(until int64) {
	for w.err == nil {
		at, e, ok := w.queue.Next(until)
		if !ok {
			break
		}
		w.set(max(w.now, at))
		switch p := e.p; {
		case p == nil:
		case !p.alive:
			continue
		case p.frozen > w.now: // all that has come meanwhile happens then, in any order
			w.queue.Add(p.frozen+w.rnd.Int64N(ms), e)
			continue
		case e.busy != nil && *e.busy:
			w.queue.Add(w.now+10*ms, e)
			continue
		}
		if w.Events++; w.Events > 1_000_000 {
			w.fail("%w: it never rests", ErrStuck)
		}
		e.f()
		w.wakeAll()
	}
	w.set(max(w.now, until))
}

// after lets something happen to a process, unless it has ended by then. d is of its own clock.
func (p *process) after(d int64, f func()) { p.afterOn(nil, d, f) }

// afterOn is the same on a thread that must be free.
func (p *process) afterOn(busy *bool, d int64, f func()) {
	if d > 0 {
		d = int64(float64(d)/p.host.rate) + 1
	}
	p.w.queue.Add(p.w.now+max(d, 0), event{p, busy, f})
}

// push is the same in true time.
func (p *process) push(d int64, busy *bool, f func()) {
	p.w.queue.Add(p.w.now+d, event{p, busy, f})
}

// pause may stop what calls it for a while, at this very place: alone, or with the whole process. It
// returns when that is over, and everything else has gone on.
func (p *process) pause() {
	w := p.w
	if w.depth >= 2 || w.now >= calmAfter || !w.chance(w.risk) {
		return
	}
	w.Pauses++
	d := w.between(0, 300*ms)
	if w.rnd.IntN(3) == 0 {
		d = w.between(0, 15*sec)
	}
	d = min(d, calmAfter-w.now)
	if w.rnd.IntN(3) > 0 {
		p.frozen = max(p.frozen, w.now+d)
	}
	w.depth++
	w.run(w.now + d)
	for p.alive && p.frozen > w.now && w.err == nil {
		w.run(p.frozen)
	}
	w.depth--
}
