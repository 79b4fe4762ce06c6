package leaserun

import "time"

// A window was granted for a worker id. Unix ms, both ends inclusive.
type window struct {
	worker uint64
	lo, hi int64
}

// A verdict says what the program must do at a time of the clock. Greater is more urgent.
type verdict int

const (
	live verdict = iota
	end          // ask it to end: there is just enough time for that
	kill
)

// Why a program must end.
const (
	clockBack = "the clock went back to before the window"
	overSoon  = "the lease could not be extended in time"
)

// terms are the durations that verdicts depend on, ms.
type terms struct {
	margin int64 // at both ends of the window, because the program's clock may be off
	grace  int64 // before the margin at the window's end, for the program to end by itself
}

func newTerms(c *Config) terms {
	return terms{c.Margin.Milliseconds(), min(c.StopTimeout, c.Lease/4).Milliseconds()}
}

// judge returns the verdict for a time of the clock, Unix ms. It does not matter how long the program
// has been inside its window: its ids come from the same clock, so they lie in the window too.
func (t terms) judge(w window, now int64) (v verdict, why string) {
	switch {
	case now < w.lo:
		return kill, clockBack
	case now+t.margin >= w.hi:
		return kill, overSoon
	case now+t.margin+t.grace >= w.hi:
		return end, overSoon
	}
	return live, ""
}

// ready reports whether the program may be started.
func (t terms) ready(w window, now int64) bool {
	v, _ := t.judge(w, now)
	return v == live && now-t.margin >= w.lo
}

// last returns the last Unix ms that ids may have been issued from, if the clock was never past seen.
func (t terms) last(w window, seen int64) int64 {
	return min(seen+t.margin, w.hi)
}

// lookEvery is how often guard looks at the clock. The clock may be set, and timers do not notice that.
const lookEvery = 50 * time.Millisecond
