// Package issuer decides which generator answers a request, and what the client is told if none can. A
// Catalog maps keys to kinds of id. An Issuer is one of those kinds: the lanes.
//
// The guarantee: Mint returns ids that a Snowflake issued, or an error and no ids. It sleeps at most
// MaxWait, and lets a client wait for a late extension for MaxPark at most. Not promised: an order
// between ids of different lanes, except that no id lies further ahead of the clock than the run-ahead.
//
// Bulk requests must not take the last ids from clients that ask for one, so bulk leaves a part of the
// ids to single requests; see Issuer.takeBulk. Nor may they keep an event loop from its other clients:
// Mint does not sleep for bulk, which waits in a queue.
package issuer

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

const never = time.Duration(math.MaxInt64)

// MaxWait is how long a Mint may sleep for the next tick when no lane has an id. If the wait would be
// longer, Mint refuses at once.
const MaxWait = 2 * time.Millisecond

// MaxPark is how long requests wait for an extension that is late, from when the first of them found
// that the windows are over. A process that was stopped for longer than a window has requests before
// it has the extension, though the store is well.
const MaxPark = 250 * time.Millisecond

// maxHold is the largest distance that bulk keeps from a window's end. Every store extends windows
// before the run-ahead comes that close to the end, so it affects bulk only if an extension is late.
const maxHold = 250 * time.Millisecond

// A Reason is a class of refusals, for metrics.
type Reason int

const (
	NoWorkerID   Reason = iota // no lease yet, or given back
	LeaseExpired               // the window is used up
	ClockBehind                // the clock is further behind the last id than the run-ahead
	RateExceeded               // the layout has no more ids for this time
	TimeFieldEnd               // the layout's time field is used up
	NumReasons                 // how many reasons there are
)

func (r Reason) String() string {
	return [...]string{"no_worker_id", "lease_expired", "clock_behind", "rate_exceeded", "time_field_end"}[r]
}

// A Refusal is Mint's error: nothing was issued. Clients see Text.
type Refusal struct {
	Reason Reason
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// NotYet reports that there has been no worker id so far, or that none is left: Redis's clients know
// this as LOADING.
func (r *Refusal) NotYet() bool { return r.Reason == NoWorkerID }

// Config holds the settings of an Issuer.
type Config struct {
	Lanes    int              // slots for worker ids, at least 1
	RunAhead time.Duration    // how far ahead of the clock ids may be issued
	Layout   generator.Layout // of every generator
	Random   bool             // see generator.Options.RandomStart
	// the id clock, Unix ms; Mint calls it only if it finds no id at the moment that it was given
	Now   func() int64
	Sleep func(time.Duration) // time.Sleep, or a test's

	// Word returns where the generator of this worker id keeps its position, for a window that starts at
	// lo; see generator.Options. If Word is nil or returns nil, the generator has its own memory.
	Word func(worker uint64, lo int64) *atomic.Uint64
	// Wake tells all who got id.ErrWait to ask again. It must return at once. If Wake is nil, Mint never
	// returns id.ErrWait.
	Wake func()
}

// An Issuer holds the lanes. It implements Kind. All methods may be called while its sources mint, but
// Publish, Extend and Seal only from one goroutine at a time. Lanes are counted from 0; a number that
// is too large panics.
type Issuer struct {
	c Config
	limits
	lanes   []lane
	refused [NumReasons]atomic.Uint64
	before  atomic.Int64 // the latest position of all replaced generators, Unix ms
	floor   atomic.Int64 // no id is issued at or before this Unix ms
	dry     drought      // of windows that reach the present
	queue   queue
	others  others
	texts   texts
}

// A lane is a slot for one worker id's generator: nil while there is none.
type lane struct {
	generator atomic.Pointer[generator.Snowflake]
	_         [56]byte // the pointer is read for every id: keep it out of the cache lines that others write
}

// New makes an Issuer with empty lanes.
func New(c Config) *Issuer {
	is := &Issuer{c: c, limits: newLimits(c.Layout, c.RunAhead), lanes: make([]lane, c.Lanes)}
	is.queue.open(c.Layout, c.Lanes)
	return is
}

// Publish makes a generator for a worker id and its window, Unix ms, both ends inclusive, and puts it
// into a lane. The generator that it replaces never leaves its own window.
func (is *Issuer) Publish(lane int, worker uint64, lo, hi int64) error {
	o := generator.Options{Layout: is.c.Layout, Worker: worker, Lo: lo, Hi: hi, RandomStart: is.c.Random}
	if is.c.Word != nil {
		o.Word = is.c.Word(worker, lo)
	}
	g, err := generator.NewSnowflake(o)
	if err != nil {
		return err
	}
	if err := g.Skip(is.floor.Load()); err != nil {
		return err
	}
	if old := is.lanes[lane].generator.Swap(g); old != nil && old.Used() {
		is.before.Store(max(is.before.Load(), old.Position()))
	}
	is.others.resume(lane, g, lo)
	is.supplied(hi)
	return nil
}

// supplied wakes who waits for a window that reaches the present, if this one does.
func (is *Issuer) supplied(hi int64) {
	if is.c.Wake != nil && hi >= is.c.Now() {
		is.dry.supplied()
		is.c.Wake()
	}
}

// Raise makes all ids from now on lie after floor, Unix ms, in whichever lane. No request may be minting. The
// error says that a lane's window ends before that.
func (is *Issuer) Raise(floor int64) error {
	is.floor.Store(max(floor, is.floor.Load()))
	for i := range is.lanes {
		if g := is.Generator(i); g != nil {
			if err := g.Skip(floor); err != nil {
				return fmt.Errorf("issuer: lane %d: %w", i, err)
			}
		}
	}
	return nil
}

// Floor returns the Unix ms up to which Raise has given up everything; 0 = nothing.
func (is *Issuer) Floor() int64 { return is.floor.Load() }

// Extend lengthens the window of a lane's generator by lo..hi, Unix ms; lo is the old end + 1.
func (is *Issuer) Extend(lane int, lo, hi int64) error {
	g := is.Generator(lane)
	if g == nil {
		return fmt.Errorf("issuer: lane %d is empty", lane)
	}
	if err := g.Extend(lo, hi); err != nil {
		return err
	}
	is.supplied(hi)
	return nil
}

// Seal stops a lane's generator for good: it issues no id after Seal has returned. last is the last Unix
// ms that it issued ids from, or 0 if the lane is empty.
func (is *Issuer) Seal(lane int) (last int64) {
	g := is.Generator(lane)
	if g == nil {
		return 0
	}
	last = g.Seal() // above what its Companions have issued
	is.others.seal(lane)
	return last
}

// Generator returns the generator in a lane, or nil.
func (is *Issuer) Generator(lane int) *generator.Snowflake { return is.lanes[lane].generator.Load() }

// Lanes returns the number of lanes.
func (is *Issuer) Lanes() int { return len(is.lanes) }

// Refused returns how many Mints were refused for this reason.
func (is *Issuer) Refused(r Reason) uint64 { return is.refused[r].Load() }

// Position returns the latest position, Unix ms, of all generators that are or were in the lanes: none
// of their ids lies after it. It is 0 if there were none. A generator that waits for the clock to reach
// its window does not count, because it has issued nothing that the clock could fall behind.
func (is *Issuer) Position() int64 {
	last := is.before.Load()
	limit := is.c.Now() + is.runAhead
	for i := range is.lanes {
		if g := is.Generator(i); g != nil && (g.Used() || g.Next() <= limit) {
			last = max(last, g.Position())
		}
	}
	return last
}

// Ready returns nil if an id would be issued at now, Unix ms, or else the refusal that a client
// would get.
func (is *Issuer) Ready(now int64) error {
	for i := range is.lanes {
		if g := is.Generator(i); g != nil && g.Check(now, now+is.runAhead) == nil {
			return nil
		}
	}
	if r, wait := is.why(now, 0, false); wait > MaxWait {
		return r
	}
	return nil
}

// A source gives one event loop access to the lanes. The loop has a home lane, which it tries first.
type source struct {
	is    *Issuer
	home  int
	lane  *lane        // home's
	tired atomic.Int64 // the turn, Unix ms, in which a Mint last slept in vain
}

// Source implements Kind.
func (is *Issuer) Source(loop int) id.Source { return is.source(loop) }

func (is *Issuer) source(loop int) *source {
	home := loop % len(is.lanes)
	return &source{is: is, home: home, lane: &is.lanes[home]}
}

// Mint implements id.Source. Bulk is refused before single ids are. The error is a *Refusal or
// id.ErrWait.
func (s *source) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	if g := s.lane.generator.Load(); g != nil { // what take tries first, without its loops
		if run, err := g.TakeLeaving(when.Now, when.Now, n, s.is.leaves(bulk)); err == nil {
			return run, nil
		}
	}
	if run, ok := s.take(when.Now, n, bulk); ok {
		return run, nil
	}
	return s.is.insist(s, when.Now, n, bulk)
}

func (s *source) waits() (*atomic.Int64, *queue) { return &s.tired, &s.is.queue }

// why returns why take has no id, and how long to wait.
func (s *source) why(now int64, bulk bool) (*Refusal, time.Duration) {
	return s.is.why(now, s.home, bulk)
}

// A taker takes ids from lanes.
type taker interface {
	take(now int64, n int, bulk bool) (id.Run, bool)
	why(now int64, bulk bool) (*Refusal, time.Duration)
	waits() (tired *atomic.Int64, bulk *queue)
}

// insist tries again at the present, because the turn may have begun a while ago. If the next tick is
// near, bulk waits for it in the queue, and a single request sleeps: that blocks the whole event loop, so after a
// sleep in vain no other Mint sleeps in this turn.
func (is *Issuer) insist(s taker, turn int64, n int, bulk bool) (id.Run, error) {
	tired, queue := s.waits()
	for waited := time.Duration(0); ; {
		supplies := is.dry.supplies()
		now := is.c.Now()
		if run, ok := s.take(now, n, bulk); ok {
			return run, nil
		}
		refusal, wait := s.why(now, bulk)
		if is.c.Now() > now { // this thread was paused, and others issued with a later clock: try again
			continue
		}
		if is.c.Wake != nil && (refusal.Reason == LeaseExpired && is.await(supplies) ||
			refusal.Reason == RateExceeded && bulk && queue.join(n, wait, is.c.Wake)) {
			return id.Run{}, id.ErrWait
		}
		if wait > MaxWait-waited || tired.Load() == turn || bulk && is.c.Wake != nil {
			if waited > 0 {
				tired.Store(turn)
			}
			is.refused[refusal.Reason].Add(1)
			return id.Run{}, refusal
		}
		waited += wait
		is.c.Sleep(wait)
	}
}

// await reports whether a request that found the windows over may wait for an extension.
func (is *Issuer) await(supplies uint64) bool {
	lasted, _ := is.dry.lasts(supplies)
	return lasted < MaxPark
}

// Late reports whether requests wait for an extension now, or may wait for the next tick.
func (is *Issuer) Late() bool {
	lasted, dry := is.dry.lasting()
	return dry && lasted < MaxPark || is.queue.waiting() || is.others.waiting()
}

// take tries the home lane at the present, then the other lanes at the present, then all of them ahead
// of the clock.
func (s *source) take(now int64, n int, bulk bool) (run id.Run, ok bool) {
	lanes := s.is.lanes
	for _, limit := range [2]int64{now, now + s.is.runAhead} {
		for i, k := 0, s.home; i < len(lanes); i++ {
			if g := lanes[k].generator.Load(); g != nil {
				var err error
				if bulk {
					run, err = s.is.takeBulk(g, now, limit, n)
				} else {
					run, err = g.Take(now, limit, n)
				}
				if err == nil {
					return run, true
				}
			}
			if k++; k == len(lanes) {
				k = 0
			}
		}
	}
	return id.Run{}, false
}

// takeBulk takes ids for bulk and leaves some for single requests. In the last tick that it may use it
// leaves a quarter. When the clock moves on, the next tick is the last one, and single requests have a
// quarter of that. The ids left behind are not lost, unless the run-ahead is shorter than a tick. Bulk
// also does not run ahead into the end of a window, so that single requests have that if an extension
// is late.
func (is *Issuer) takeBulk(g *generator.Snowflake, now, limit int64, n int) (id.Run, error) {
	return g.TakeLeaving(now, min(limit, is.bulkLimit(g.End(), now)), n, is.leaves(true))
}

// why returns why no lane issues at now, and how long to wait. Both are those of the lane that can issue
// soonest.
func (is *Issuer) why(now int64, home int, bulk bool) (*Refusal, time.Duration) {
	best, wait := &Refusal{NoWorkerID, "no worker id yet"}, never
	for i := range is.lanes {
		g := is.Generator((home + i) % len(is.lanes))
		if g == nil {
			continue
		}
		r, w := is.explain(g, now, bulk)
		if r != nil && !g.Used() {
			r = unbegun(g, now, w, r)
		}
		if r != nil && (w < wait || best.Reason == NoWorkerID) {
			best, wait = r, w
		}
	}
	return best, wait
}
