// Package clock is the id clock, which tells the generators the present.
//
// It is set once, at start, from the wall clock. After that it runs on the monotonic clock, so that a
// step of the wall clock does not reach the ids at once. Once a second Run compares the two and follows
// the wall clock by the rules of Discipline. Ids stay unique whatever this clock says. It matters for
// their order, and for the daemon to keep issuing.
package clock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Clock gives the present in Unix ms. Any goroutine may call Now.
type Clock struct {
	base    time.Time    // the id clock counts from its monotonic reading
	offset  atomic.Int64 // Unix ns at base
	apart   atomic.Int64 // wall − id clock at the last comparison, ns
	steps   [NumKinds]atomic.Uint64
	stepped atomic.Uint64
	told    time.Duration // the last argument of StaysAhead; only Run uses it

	// StaysAhead, if not nil, is called by Run when the wall clock went back and this clock did not
	// follow all the way. ahead is how far this clock is now ahead of the wall clock. Run calls it again
	// for further steps. Set it before Run.
	StaysAhead func(ahead time.Duration)
	// EachSecond, if not nil, is called by Run after each comparison. It is for what else an idle daemon
	// must look after, so that it is woken only once, and must not wait. Set it before Run.
	EachSecond func()
}

// New makes a Clock that is set to the wall clock.
func New() *Clock {
	c := &Clock{base: time.Now()}
	c.offset.Store(c.base.UnixNano())
	return c
}

// Now returns the present, Unix ms. It may go back by a few ms when the clock is slewed, or by more when
// it follows the wall clock back.
func (c *Clock) Now() int64 {
	return (c.offset.Load() + int64(time.Since(c.base))) / int64(time.Millisecond)
}

// Base returns the moment from which the periods of Next count.
func (c *Clock) Base() time.Time { return c.base }

// Next returns how long it is until the next whole multiple of a period since the clock was made. Timers that wait for
// it meet, so that one wake of an idle program serves them all.
func (c *Clock) Next(period time.Duration) time.Duration { return period - time.Since(c.base)%period }

// SetAhead sets the clock this far ahead of the wall clock, or behind it. Call it before Run.
func (c *Clock) SetAhead(ahead time.Duration) { c.offset.Store(c.base.UnixNano() + int64(ahead)) }

// Ahead returns how far the clock is ahead of the wall clock now.
func (c *Clock) Ahead() time.Duration {
	t := time.Now()
	return time.Duration(c.offset.Load() + int64(t.Sub(c.base)) - t.UnixNano())
}

// Stepped returns how often the wall clock was set, or the machine slept. This clock may follow each step by many
// adjustments, or by none.
func (c *Clock) Stepped() uint64 { return c.stepped.Load() }

// Steps returns the number of adjustments of one kind.
func (c *Clock) Steps(k Kind) uint64 { return c.steps[k].Load() }

// Difference returns wall clock − id clock at the last comparison.
func (c *Clock) Difference() time.Duration { return time.Duration(c.apart.Load()) }

// Run compares the clock with the wall clock every second until ctx ends. position returns the last Unix
// ms that ids were issued from; Run never moves the clock back below it.
func (c *Clock) Run(ctx context.Context, position func() int64, log *slog.Logger) {
	d := Discipline{}
	timer := time.NewTimer(c.Next(Interval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(c.Next(Interval))
		t := time.Now()
		mono := t.Sub(c.base)
		s := Sample{
			Mono:      mono,
			Suspended: suspended(),
			Wall:      t.UnixNano(),
			Clock:     c.offset.Load() + int64(mono),
			Position:  position() * int64(time.Millisecond),
		}
		c.apply(s, d.Step(s), log)
		if c.EachSecond != nil {
			c.EachSecond()
		}
	}
}

func (c *Clock) apply(s Sample, a Adjustment, log *slog.Logger) {
	c.offset.Add(int64(a.By))
	c.apart.Store(s.Wall - s.Clock - int64(a.By))
	c.tell(a.Kind, s.Clock+int64(a.By)-s.Wall)
	if a.By != 0 {
		c.steps[a.Kind].Add(1)
	}
	if a.Step {
		c.stepped.Add(1)
	}
	if a.Note != "" {
		log.Warn(a.Note, "kind", a.Kind.String(), "wall_minus_id_clock", time.Duration(s.Wall-s.Clock), "adjusted_by", a.By)
	}
}

// tell calls StaysAhead if there is something new to tell. ahead is clock − wall, ns, after an
// adjustment of this kind.
func (c *Clock) tell(k Kind, ahead int64) {
	switch d := time.Duration(ahead); {
	case k != Backward:
		c.told = 0
	case d >= c.told+SlewBelow:
		if c.told = d; c.StaysAhead != nil {
			c.StaysAhead(d)
		}
	}
}
