// Package issuer decides which generator answers a request, and what is said when none may.
//
// The guarantee: Mint returns ids that a Snowflake issued, or an error and nothing. It waits at most MaxWait. What is not promised:
// an order between the ids of different lanes, other than that none lies further ahead of the clock than the run-ahead.
package issuer

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/generator"
)

const never = time.Duration(math.MaxInt64)

// MaxWait is how long a Mint sleeps for the next tick when every lane is exhausted; a longer shortfall is refused at once.
const MaxWait = 2 * time.Millisecond

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

	// Stats is what Handlers say when they are asked for statistics; see protocol.Handler.
	Stats func(group []byte, emit func(name, value string)) bool
}

// An Issuer holds the lanes. All of its methods may be called while handlers mint; Publish, Extend and Seal from one goroutine at a time.
// Lanes are counted from 0; a number that is too large panics.
type Issuer struct {
	c        Config
	runAhead int64
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
	return &Issuer{c: c, runAhead: c.RunAhead.Milliseconds(), lanes: make([]lane, c.Lanes)}
}

// Publish makes a generator for a worker id and its window, Unix ms, both ends inclusive, and puts it into a lane in place of the one
// there, which keeps to its own window.
func (is *Issuer) Publish(lane int, worker uint64, lo, hi int64) error {
	g, err := generator.NewSnowflake(generator.Options{Layout: is.c.Layout, Worker: worker, Lo: lo, Hi: hi, RandomStart: is.c.Random})
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
	if r, wait := is.why(now, 0); wait > MaxWait {
		return r
	}
	return nil
}

// A Handler mints for one event loop, whose home lane it knows. It is what the protocols call; safe for any number of goroutines.
type Handler struct {
	is   *Issuer
	home int
}

// Handler makes the handler of a loop.
func (is *Issuer) Handler(loop int) *Handler { return &Handler{is, loop % len(is.lanes)} }

// Source tells which generator answers a key. There is one kind of id, so all keys are alike.
func (h *Handler) Source(key []byte) int { return 0 }

// Stats emits a group of statistics, see protocol.Handler.
func (h *Handler) Stats(group []byte, emit func(name, value string)) bool {
	return h.is.c.Stats(group, emit)
}

// Mint issues between 1 and n ids: first, first+stride, ..., got of them. now is Unix ms. The error is a *Refusal.
func (h *Handler) Mint(now int64, _, n int) (first, stride uint64, got int, err error) {
	run, ok := h.take(now, n)
	if !ok { // the clock was read when the loop's turn began, which may be a while ago
		now = h.is.c.Now()
		run, ok = h.take(now, n)
	}
	for waited := time.Duration(0); !ok; {
		refusal, wait := h.is.why(now, h.home)
		if waited += wait; waited > MaxWait {
			h.is.refused[refusal.Reason].Add(1)
			return 0, 0, 0, refusal
		}
		h.is.c.Sleep(wait)
		now = h.is.c.Now()
		run, ok = h.take(now, n)
	}
	return run.First, run.Stride, run.N, nil
}

// take tries the home lane at the present, then the other lanes at the present, then each of them ahead of the clock.
func (h *Handler) take(now int64, n int) (generator.Run, bool) {
	lanes := h.is.lanes
	for _, limit := range [2]int64{now, now + h.is.runAhead} {
		for i, k := 0, h.home; i < len(lanes); i++ {
			if g := lanes[k].generator.Load(); g != nil {
				if run, err := g.Take(now, limit, n); err == nil {
					return run, true
				}
			}
			if k++; k == len(lanes) {
				k = 0
			}
		}
	}
	return generator.Run{}, false
}

// why explains why no lane issues at now, in the words of the lane that is nearest to issuing, and says how long that one needs.
func (is *Issuer) why(now int64, home int) (*Refusal, time.Duration) {
	best, wait := &Refusal{NoWorkerID, "no worker id yet"}, never
	for i := range is.lanes {
		g := is.Generator((home + i) % len(is.lanes))
		if g == nil {
			continue
		}
		r, w := is.explain(g, now)
		if r != nil && (w < wait || best.Reason == NoWorkerID) {
			best, wait = r, w
		}
	}
	return best, wait
}

func (is *Issuer) explain(g *generator.Snowflake, now int64) (*Refusal, time.Duration) {
	l := is.c.Layout
	err := g.Check(now, now+is.runAhead)
	switch {
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
