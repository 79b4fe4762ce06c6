package issuer

import (
	"errors"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// limits say how far the ids of a layout may be used up.
type limits struct {
	layout   generator.Layout
	runAhead int64     // ms
	leave    [2]uint64 // ids that a single request and bulk leave in the last tick that they may use
	hold     int64     // ms before a window's end that bulk does not run ahead into
}

func newLimits(l generator.Layout, runAhead time.Duration) limits {
	return limits{
		layout: l, runAhead: runAhead.Milliseconds(),
		leave: [2]uint64{0, (l.MaxSequence() + 1) / 4},
		hold:  min(runAhead/4, maxHold).Milliseconds(),
	}
}

// A window is what a refusal says of a generator.
type window interface {
	Check(now, limit int64) error
	Next() int64
	Position() int64
	End() int64
}

// leaves returns how many ids of the last tick a request leaves to others. Where bulk and single
// requests alternate, a branch would be mispredicted.
func (t *limits) leaves(bulk bool) uint64 {
	i := 0
	if bulk {
		i = 1
	}
	return t.leave[i]
}

// bulkLimit returns the last moment whose tick bulk may use, Unix ms; at least now. The window ends at
// end.
func (t *limits) bulkLimit(end, now int64) int64 {
	return max(now, min(now+t.runAhead, end-t.hold))
}

// explain returns why g issues nothing at now, and how long to wait; nil if it never will again.
func (t *limits) explain(g window, now int64, bulk bool) (*Refusal, time.Duration) {
	l := t.layout
	err := g.Check(now, now+t.runAhead)
	switch {
	case err == nil && bulk: // the remaining ids are for single requests
		return &Refusal{RateExceeded, "id rate exceeded"}, t.bulkWait(g.End(), now)
	case err == nil: // it has become ready meanwhile
		return &Refusal{RateExceeded, "id rate exceeded"}, time.Millisecond
	case errors.Is(err, generator.ErrSealed):
		return nil, never
	case errors.Is(err, generator.ErrWindow) && max(now, g.Next()) >= l.End():
		return &Refusal{TimeFieldEnd,
			"the time field of the id layout ended " + time.UnixMilli(l.End()).UTC().Format(time.DateOnly)}, never
	case errors.Is(err, generator.ErrWindow) && now <= g.End(): // used up ahead of the clock, before the extension
		return &Refusal{RateExceeded, "id rate exceeded"}, never
	case errors.Is(err, generator.ErrWindow):
		return &Refusal{LeaseExpired, "lease expired " + ago(now-g.End()) + " ago"}, never
	}
	wait := time.Duration(g.Next()-now-t.runAhead) * time.Millisecond
	if wait <= max(MaxWait, time.Duration(l.Unit)*time.Millisecond) {
		return &Refusal{RateExceeded, "id rate exceeded"}, wait
	}
	return &Refusal{ClockBehind, "clock " + ago(g.Position()-now) + " behind the last id"}, wait
}

// unbegun returns why g, which has not issued anything yet, issues nothing: no clock went back, and nobody asked too
// often.
func unbegun(g window, now int64, wait time.Duration, r *Refusal) *Refusal {
	const early = "the clock has yet to reach the window: ids in %v"
	switch empty := g.End() < g.Next(); {
	case empty && now < g.Next():
		return &Refusal{NoWorkerID, fmt.Sprintf(early, time.Duration(g.Next()-now)*time.Millisecond)}
	case empty:
		return &Refusal{LeaseExpired, "the window is empty until it is extended"}
	case r.Reason == ClockBehind:
		return &Refusal{NoWorkerID, fmt.Sprintf(early, wait)}
	}
	return r
}

// bulkWait returns how long it takes until bulk may use another tick.
func (t *limits) bulkWait(end, now int64) time.Duration {
	l, last := t.layout, t.bulkLimit(end, now)
	if now < last && last < now+t.runAhead { // limited by the window's end: only an extension moves that
		return never
	}
	return time.Duration(l.Unit-(last-l.Epoch)%l.Unit) * time.Millisecond
}

// ago formats a duration for people: 3.2s, 12s, 5m0s.
func ago(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
