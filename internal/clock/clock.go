// Package clock is the id clock: what the generators take for the present.
//
// It is set once, at start, from the wall clock, and then runs on the monotonic clock, so that no step of the wall clock reaches the
// ids by surprise. Once a second Run compares the two and follows the wall clock by the rules of Discipline. Ids stay unique whatever
// this clock says; what is at stake here is that they stay in order and that the daemon keeps issuing.
package clock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Clock gives the present in Unix ms. Now may be called from any goroutine.
type Clock struct {
	base   time.Time    // its monotonic reading is the zero of the id clock
	offset atomic.Int64 // Unix ns at base
	apart  atomic.Int64 // wall − id clock at the last comparison, ns
	steps  [NumKinds]atomic.Uint64
	told   time.Duration // what StaysAhead was told last; Run's

	// StaysAhead, if it is not nil, is called by Run when the wall clock went back and this clock did not follow all the way: ahead is how
	// far it is ahead of the wall clock now. It is called again for further steps. Set it before Run.
	StaysAhead func(ahead time.Duration)
}

// New sets a clock to the wall clock's present.
func New() *Clock {
	c := &Clock{base: time.Now()}
	c.offset.Store(c.base.UnixNano())
	return c
}

// Now is the present, Unix ms. It may go back by a few ms when the clock is slewed or by more when it follows the wall clock back.
func (c *Clock) Now() int64 {
	return (c.offset.Load() + int64(time.Since(c.base))) / int64(time.Millisecond)
}

// Steps counts the adjustments of one kind.
func (c *Clock) Steps(k Kind) uint64 { return c.steps[k].Load() }

// Difference is wall clock − id clock when they were last compared.
func (c *Clock) Difference() time.Duration { return time.Duration(c.apart.Load()) }

// Run compares the clock with the wall clock every second until ctx ends. position is the last Unix ms that ids were issued from:
// the clock is never taken back below it.
func (c *Clock) Run(ctx context.Context, position func() int64, log *slog.Logger) {
	d := Discipline{}
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
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
	}
}

func (c *Clock) apply(s Sample, a Adjustment, log *slog.Logger) {
	c.offset.Add(int64(a.By))
	c.apart.Store(s.Wall - s.Clock - int64(a.By))
	c.tell(a.Kind, s.Clock+int64(a.By)-s.Wall)
	if a.By != 0 {
		c.steps[a.Kind].Add(1)
	}
	if a.Note != "" {
		log.Warn(a.Note, "kind", a.Kind.String(), "wall_minus_id_clock", time.Duration(s.Wall-s.Clock), "adjusted_by", a.By)
	}
}

// tell calls StaysAhead if there is something new to say. ahead is clock − wall, ns, after an adjustment of this kind.
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
