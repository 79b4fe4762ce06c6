package leaserun

import "time"

// A window is what was granted of a worker id. Unix ms, both ends inclusive.
type window struct {
	worker uint64
	lo, hi int64
}

// A verdict says what a moment of the clock means for the program. The greater, the more urgent.
type verdict int

const (
	live verdict = iota
	end          // ask it to end: there is time for that, and no more than that
	kill
)

// Why a program has to end.
const (
	clockBack = "the clock went back to before the window"
	overSoon  = "the lease could not be extended in time"
)

// terms are the lengths of time that verdicts go by, ms.
type terms struct {
	margin int64 // at either end of the window, for the program's idea of the present
	grace  int64 // before that, at the far end: for the program to end by itself
}

func newTerms(c *Config) terms {
	return terms{c.Margin.Milliseconds(), min(c.StopTimeout, c.Lease/4).Milliseconds()}
}

// judge looks at the clock, Unix ms. It need not ask for how long the program has been inside its window: what it issues lies there, for
// its ids are made of the same clock.
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

// ready says whether the program may be started.
func (t terms) ready(w window, now int64) bool {
	v, _ := t.judge(w, now)
	return v == live && now-t.margin >= w.lo
}

// last is the last Unix ms that ids may have been issued from, if the clock was never past seen.
func (t terms) last(w window, seen int64) int64 {
	return min(seen+t.margin, w.hi)
}

// lookEvery is how often the clock is looked at. It is set now and then, and no timer follows it.
const lookEvery = 50 * time.Millisecond
