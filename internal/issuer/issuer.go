// Package issuer decides which generator answers a request, and what is said when none may. A Catalog knows which kind of id a key
// asks for; an Issuer is one of those kinds, the lanes.
//
// The guarantee: Mint returns ids that a Snowflake issued, or an error and nothing. It waits at most MaxWait. What is not promised:
// an order between the ids of different lanes, other than that none lies further ahead of the clock than the run-ahead.
//
// Who asks for many ids at once must not take the last ones from those who ask for one: what is bulk leaves a part of what may be issued
// to single ids, see Issuer.takeBulk.
package issuer

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

const never = time.Duration(math.MaxInt64)

// MaxWait is how long a Mint sleeps for the next tick when every lane is exhausted; a longer shortfall is refused at once.
const MaxWait = 2 * time.Millisecond

// maxHold is the most that bulk keeps away from a window's end. Every store extends windows earlier than that before the run-ahead reaches
// the end, so bulk notices only where an extension is late.
const maxHold = 250 * time.Millisecond

// A Reason is a class of refusals, as metrics count them.
type Reason int

// The reasons.
const (
	NoWorkerID   Reason = iota // no lease yet, or given back
	LeaseExpired               // the window is used up
	ClockBehind                // the clock is further behind the last id than the run-ahead
	RateExceeded               // the layout has no more ids for this time
	TimeFieldEnd               // the layout's time field is used up
	NumReasons
)

func (r Reason) String() string {
	return [...]string{"no_worker_id", "lease_expired", "clock_behind", "rate_exceeded", "time_field_end"}[r]
}

// A Refusal is Mint's error: nothing was issued, and Text says why in the words that clients are shown.
type Refusal struct {
	Reason Reason
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// Config is what an Issuer is made of.
type Config struct {
	Lanes    int                 // slots for worker ids, at least 1
	RunAhead time.Duration       // how far ahead of the clock ids may be issued
	Layout   generator.Layout    // of every generator
	Random   bool                // see generator.Options.RandomStart
	Now      func() int64        // the id clock, Unix ms; a Mint asks it only when it finds no id at the moment it was given
	Sleep    func(time.Duration) // time.Sleep, or a test's

	// Word says where the generator of a worker id's window that begins at lo keeps its position; see generator.Options. nil, or an answer
	// of nil, is memory of its own.
	Word func(worker uint64, lo int64) *atomic.Uint64
}

// An Issuer holds the lanes. It is a Kind. All of its methods may be called while its sources mint; Publish, Extend and Seal from one goroutine at a time.
// Lanes are counted from 0; a number that is too large panics.
type Issuer struct {
	c        Config
	runAhead int64  // ms
	leave    uint64 // ids of the last tick in reach that bulk leaves
	hold     int64  // ms of a window's end that bulk does not run ahead into
	lanes    []lane
	refused  [NumReasons]atomic.Uint64
	before   atomic.Int64 // the latest position of the generators that were replaced, Unix ms
}

// A lane is a slot for one worker id's generator: nil while there is none.
type lane struct {
	generator atomic.Pointer[generator.Snowflake]
	_         [56]byte // a lane's pointer is read for every id: keep its neighbours' writes away
}

// New makes an issuer whose lanes are all empty.
func New(c Config) *Issuer {
	return &Issuer{
		c: c, runAhead: c.RunAhead.Milliseconds(), lanes: make([]lane, c.Lanes),
		leave: (c.Layout.MaxSequence() + 1) / 4,
		hold:  min(c.RunAhead/4, maxHold).Milliseconds(),
	}
}

// Publish makes a generator for a worker id and its window, Unix ms, both ends inclusive, and puts it into a lane in place of the one
// there, which keeps to its own window.
func (is *Issuer) Publish(lane int, worker uint64, lo, hi int64) error {
	o := generator.Options{Layout: is.c.Layout, Worker: worker, Lo: lo, Hi: hi, RandomStart: is.c.Random}
	if is.c.Word != nil {
		o.Word = is.c.Word(worker, lo)
	}
	g, err := generator.NewSnowflake(o)
	if err != nil {
		return err
	}
	if old := is.lanes[lane].generator.Swap(g); old != nil && old.Used() {
		is.before.Store(max(is.before.Load(), old.Position()))
	}
	return nil
}

// Extend lengthens the window of a lane's generator by lo..hi, Unix ms; lo is the old end + 1.
func (is *Issuer) Extend(lane int, lo, hi int64) error {
	g := is.Generator(lane)
	if g == nil {
		return fmt.Errorf("issuer: lane %d is empty", lane)
	}
	return g.Extend(lo, hi)
}

// Seal ends a lane's generator: no id of it is issued after Seal has returned. last is the last Unix ms that ids were issued from, 0 if the
// lane is empty.
func (is *Issuer) Seal(lane int) (last int64) {
	g := is.Generator(lane)
	if g == nil {
		return 0
	}
	return g.Seal()
}

// Generator is the one in a lane, or nil.
func (is *Issuer) Generator(lane int) *generator.Snowflake { return is.lanes[lane].generator.Load() }

// Lanes is how many there are.
func (is *Issuer) Lanes() int { return len(is.lanes) }

// Refused counts the Mints that were refused for a reason.
func (is *Issuer) Refused(r Reason) uint64 { return is.refused[r].Load() }

// Position is the latest position of the generators in the lanes, and of those that were there, Unix ms: no id of theirs lies after it. It is 0
// while there are none. One that waits for the clock to reach its window has issued nothing that the clock could fall behind, and does not count.
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

// Ready says whether an id would be issued at now, Unix ms: nil, or the refusal that a client would get.
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

// A source is the lanes as one event loop uses them, which has a home among them.
type source struct {
	is    *Issuer
	home  int
	tired [2]atomic.Int64 // the turn in which a Mint last slept in vain, Unix ms: of single ids, of bulk
}

// Source implements Kind.
func (is *Issuer) Source(loop int) id.Source { return &source{is: is, home: loop % len(is.lanes)} }

// Mint implements id.Source. What is bulk is refused first. The error is a *Refusal.
func (s *source) Mint(now int64, n int, bulk bool) (id.Run, error) {
	run, ok := s.take(now, n, bulk)
	if !ok {
		return s.insist(now, n, bulk)
	}
	return run, nil
}

// insist tries with the present, since the turn may have begun a while ago, and sleeps for the next tick if that is near. A sleep stops
// the whole loop: after one in vain, nothing else of its kind sleeps in this turn.
func (s *source) insist(turn int64, n int, bulk bool) (id.Run, error) {
	tired := &s.tired[0]
	if bulk {
		tired = &s.tired[1]
	}
	for waited := time.Duration(0); ; {
		now := s.is.c.Now()
		if run, ok := s.take(now, n, bulk); ok {
			return run, nil
		}
		refusal, wait := s.is.why(now, s.home, bulk)
		if s.is.c.Now() > now { // this thread was stopped since, and others went on with a later clock
			continue
		}
		if wait > MaxWait-waited || tired.Load() == turn {
			if waited > 0 {
				tired.Store(turn)
			}
			s.is.refused[refusal.Reason].Add(1)
			return id.Run{}, refusal
		}
		waited += wait
		s.is.c.Sleep(wait)
	}
}

// take tries the home lane at the present, then the other lanes at the present, then each of them ahead of the clock.
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

// takeBulk takes from a lane so that single ids find some too. Of the last tick that it may use it leaves a quarter: when the clock goes
// on, the next tick is the last one, and single ids have a quarter of that. What is left behind is not lost, unless the run-ahead is shorter
// than a tick. And bulk does not run ahead into the end of a window: where an extension is late, single ids have that.
func (is *Issuer) takeBulk(g *generator.Snowflake, now, limit int64, n int) (id.Run, error) {
	return g.TakeLeaving(now, min(limit, is.bulkLimit(g, now)), n, is.leave)
}

// bulkLimit is the last moment whose tick bulk may use, Unix ms; now at least.
func (is *Issuer) bulkLimit(g *generator.Snowflake, now int64) int64 {
	return max(now, min(now+is.runAhead, g.End()-is.hold))
}

// why explains why no lane issues at now, in the words of the lane that is nearest to issuing, and says how long that one needs.
func (is *Issuer) why(now int64, home int, bulk bool) (*Refusal, time.Duration) {
	best, wait := &Refusal{NoWorkerID, "no worker id yet"}, never
	for i := range is.lanes {
		g := is.Generator((home + i) % len(is.lanes))
		if g == nil {
			continue
		}
		r, w := is.explain(g, now, bulk)
		if r != nil && (w < wait || best.Reason == NoWorkerID) {
			best, wait = r, w
		}
	}
	return best, wait
}

func (is *Issuer) explain(g *generator.Snowflake, now int64, bulk bool) (*Refusal, time.Duration) {
	l := is.c.Layout
	err := g.Check(now, now+is.runAhead)
	switch {
	case err == nil && bulk: // what there is, is left to single ids
		return &Refusal{RateExceeded, "id rate exceeded"}, is.bulkWait(g, now)
	case err == nil: // it has become ready since
		return &Refusal{RateExceeded, "id rate exceeded"}, time.Millisecond
	case errors.Is(err, generator.ErrSealed):
		return nil, never
	case errors.Is(err, generator.ErrWindow) && max(now, g.Next()) >= l.End():
		return &Refusal{TimeFieldEnd, "the time field of the id layout ended " + time.UnixMilli(l.End()).UTC().Format(time.DateOnly)}, never
	case errors.Is(err, generator.ErrWindow) && now <= g.End(): // used up ahead of the clock, before it was extended
		return &Refusal{RateExceeded, "id rate exceeded"}, never
	case errors.Is(err, generator.ErrWindow):
		return &Refusal{LeaseExpired, "lease expired " + ago(now-g.End()) + " ago"}, never
	}
	wait := time.Duration(g.Next()-now-is.runAhead) * time.Millisecond
	if wait <= max(MaxWait, time.Duration(l.Unit)*time.Millisecond) {
		return &Refusal{RateExceeded, "id rate exceeded"}, wait
	}
	return &Refusal{ClockBehind, "clock " + ago(g.Position()-now) + " behind the last id"}, wait
}

// bulkWait is how long it takes until the last tick that bulk may use is another one.
func (is *Issuer) bulkWait(g *generator.Snowflake, now int64) time.Duration {
	l, last := is.c.Layout, is.bulkLimit(g, now)
	if now < last && last < now+is.runAhead { // the window's end, which an extension moves
		return never
	}
	return time.Duration(l.Unit-(last-l.Epoch)%l.Unit) * time.Millisecond
}

// ago writes a length of time the way a person would say it: 3.2s, 12s, 5m0s.
func ago(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
