package clock

import (
	"testing"
	"time"
)

// A world is a machine whose wall clock, suspension and id traffic a test moves; it applies what
// Discipline says as Clock does.
type world struct {
	d                     Discipline
	mono, suspended       time.Duration
	wall, clock, position int64
	notes                 []string
	steps, adjusted       int
	moved                 map[Kind]time.Duration
}

func newWorld() *world {
	const start = 1_800_000_000 * int64(time.Second)
	return &world{wall: start, clock: start, position: start, moved: map[Kind]time.Duration{}}
}

// pass lets n comparisons go by; a busy daemon has just issued an id at each.
func (w *world) pass(n int, busy bool) {
	for range n {
		w.mono += Interval
		w.wall += int64(Interval)
		w.clock += int64(Interval)
		if busy {
			w.position = max(w.position, w.clock)
		}
		a := w.d.Step(Sample{w.mono, w.suspended, w.wall, w.clock, w.position})
		w.clock += int64(a.By)
		w.moved[a.Kind] += a.By
		if a.Step {
			w.steps++
		}
		if a.Kind != Slew && a.By != 0 {
			w.adjusted++
		}
		if a.Note != "" {
			w.notes = append(w.notes, a.Note)
		}
	}
}

func (w *world) off() time.Duration { return time.Duration(w.wall - w.clock) }

func TestSmallDifferencesAreWornOff(t *testing.T) {
	for _, off := range []time.Duration{499 * time.Millisecond, -499 * time.Millisecond} {
		w := newWorld()
		w.wall += int64(off)
		w.pass(1, true)
		if got := w.clock - w.position; time.Duration(got).Abs() != SlewRate {
			t.Errorf("off by %v: moved %v in one comparison, want %v", off, time.Duration(got), SlewRate)
		}
		w.pass(100, true)
		if w.off().Abs() >= noise || len(w.notes) != 0 {
			t.Errorf("off by %v: %v left, notes %q", off, w.off(), w.notes)
		}
	}
}

func TestAStepForwardIsFollowedOnceItHasHeld(t *testing.T) {
	w := newWorld()
	w.pass(5, true)
	w.wall += int64(time.Hour)
	w.pass(60, true)
	if w.off() != time.Hour {
		t.Fatalf("followed after less than %v", ForwardHold)
	}
	w.pass(1, true)
	if w.off() != 0 || len(w.notes) != 2 {
		t.Fatalf("%v off after %v, notes %q", w.off(), ForwardHold, w.notes)
	}
}

func TestAYearForwardAndBackLeavesNoTrace(t *testing.T) {
	const year = 365 * 24 * time.Hour
	w := newWorld()
	w.wall += int64(year)
	w.pass(30, true)
	w.wall -= int64(year)
	w.pass(100, true)
	if w.off() != 0 || w.moved[Forward] != 0 || w.moved[Backward] != 0 {
		t.Fatalf("%v off, moved %v", w.off(), w.moved)
	}
}

func TestAHoldStartsAnewWhenTheWallClockMovesAgain(t *testing.T) {
	w := newWorld()
	w.wall += int64(time.Hour)
	w.pass(50, true)
	w.wall += int64(time.Minute)
	w.pass(50, true)
	if w.moved[Forward] != 0 {
		t.Fatal("followed a wall clock that had not held still")
	}
	w.pass(20, true)
	if w.off() != 0 {
		t.Fatalf("%v off", w.off())
	}
}

func TestForwardStepsAreLimitedTogether(t *testing.T) {
	w := newWorld()
	w.wall += int64(20 * time.Hour)
	w.pass(100, true)
	w.wall += int64(5 * time.Hour)
	w.pass(1000, true)
	if w.moved[Forward] != 20*time.Hour {
		t.Fatalf("followed %v in all", w.moved[Forward])
	}
	if len(w.notes) != 4 {
		t.Fatalf("notes: %q", w.notes)
	}
}

// A guest that its host stops for an hour every night, without its knowing.
func TestStepsForwardAreForgottenAsTimePasses(t *testing.T) {
	w := newWorld()
	for night := range 100 {
		w.wall += int64(time.Hour)
		if w.pass(23*3600, true); w.off() != 0 {
			t.Fatalf("night %d: %v off, notes %q", night, w.off(), w.notes[max(0, len(w.notes)-2):])
		}
	}
	w.wall += int64(24*time.Hour + time.Second)
	if w.pass(1000, true); w.off() != 24*time.Hour+time.Second {
		t.Fatal("followed by more than the limit at once")
	}
}

// A machine boots in 1970, and its clock is set while the daemon waits for a worker id.
func TestBeforeTheFirstIDAnyStepForwardIsFollowedAtOnce(t *testing.T) {
	w := newWorld()
	w.position = 0
	w.pass(100, false)
	w.wall += int64(56 * 365 * 24 * time.Hour)
	if w.pass(1, false); w.off() != 0 || len(w.notes) != 1 {
		t.Fatalf("%v off, notes %q", w.off(), w.notes)
	}
	w.wall += int64(24 * time.Hour) // which leaves the limit whole
	w.position = 1
	if w.pass(61, false); w.off() != 0 {
		t.Fatalf("%v off, notes %q", w.off(), w.notes)
	}
}

func TestAStepBackIsNotFollowedBelowTheLastID(t *testing.T) {
	w := newWorld()
	w.pass(5, true)
	w.wall -= int64(time.Hour)
	w.pass(100, true)
	if w.clock < w.position || w.moved[Backward] != 0 {
		t.Fatalf("the clock of a busy daemon was moved %v", w.moved[Backward])
	}
	if len(w.notes) != 1 {
		t.Fatalf("notes: %q", w.notes)
	}
	w.pass(3599, false) // idle: the clock stands at the last id until the wall clock comes by
	if w.clock < w.position || w.off() < -time.Second-100*time.Second {
		t.Fatalf("idle: clock %v above the last id, wall %v off", time.Duration(w.clock-w.position), w.off())
	}
	w.pass(300, false)
	if w.off().Abs() >= noise {
		t.Fatalf("%v off at the end", w.off())
	}
}

// TestAStepCountsOnce, by however many adjustments it is followed.
func TestAStepCountsOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		step    func(w *world)
		least   int // adjustments
		matters bool
	}{
		{"back, as a busy daemon sees it", func(w *world) {
			w.wall -= int64(time.Minute)
			for range 60 { // it issues ids that the clock may not go below
				w.position = w.clock - int64(Interval)/10
				w.pass(1, false)
			}
		}, 50, true},
		{"forward", func(w *world) {
			w.wall += int64(time.Hour)
			w.pass(100, true)
		}, 1, true},
		{"forward, too far", func(w *world) {
			w.wall += int64(ForwardLimit) * 2
			w.pass(100, true)
		}, 0, true},
		{"asleep", func(w *world) {
			w.wall, w.suspended = w.wall+int64(time.Hour), w.suspended+time.Hour
			w.pass(100, true)
		}, 1, true},
		{"a little off", func(w *world) {
			w.wall += int64(SlewBelow) / 2
			w.pass(100, true)
		}, 0, false},
	} {
		w := newWorld()
		w.pass(5, true)
		c.step(w)
		if want := map[bool]int{true: 1}[c.matters]; w.steps != want || w.adjusted < c.least {
			t.Errorf("%s: %d steps, want %d; %d adjustments, at least %d", c.name, w.steps, want, w.adjusted, c.least)
		}
	}
}

func TestWhatWasFollowedBackIsFollowedForwardAtOnce(t *testing.T) {
	w := newWorld()
	w.pass(600, false) // idle for ten minutes, so there is room to go back
	w.wall -= int64(5 * time.Minute)
	w.pass(10, false)
	if w.off().Abs() >= noise || w.moved[Backward] != -5*time.Minute {
		t.Fatalf("%v off after the step back, moved %v", w.off(), w.moved)
	}
	w.wall += int64(5*time.Minute + time.Hour)
	w.pass(1, false)
	if w.off() != time.Hour {
		t.Fatalf("%v off: only what was followed back is to be followed at once", w.off())
	}
	w.pass(62, false)
	if w.off() != 0 {
		t.Fatalf("%v off", w.off())
	}
	w.wall -= int64(500 * time.Millisecond)
	w.pass(10, false)
	w.wall += int64(499 * time.Millisecond) // too little to count as a step
	if w.pass(1, false); w.off().Abs() > SlewRate {
		t.Fatalf("%v off: it is worn off, though it was followed back at once", w.off())
	}
	w.wall -= int64(5 * time.Minute)
	w.pass(70, false) // by now the step back counts as right
	w.wall += int64(5 * time.Minute)
	w.pass(1, false)
	if w.off() != 5*time.Minute {
		t.Fatalf("%v off: an old step back was made good at once", w.off())
	}
}

func TestSuspensionIsAddedAtOnce(t *testing.T) {
	w := newWorld()
	w.suspended = 3 * time.Hour // slept before the daemon started
	w.pass(3, true)
	if w.moved[Suspend] != 0 {
		t.Fatal("sleep before the start was added")
	}
	w.suspended += 8 * time.Hour
	w.wall += int64(8 * time.Hour)
	w.pass(1, true)
	if w.moved[Suspend] != 8*time.Hour || w.off() != 0 {
		t.Fatalf("added %v, %v off", w.moved[Suspend], w.off())
	}
}

func TestNowIsThePresent(t *testing.T) {
	before := time.Now().UnixMilli()
	c := New()
	now := c.Now()
	if after := time.Now().UnixMilli(); now < before || now > after {
		t.Fatalf("%d is not between %d and %d", now, before, after)
	}
	if n := testing.AllocsPerRun(100, func() { c.Now() }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	c := New()
	for b.Loop() {
		c.Now()
	}
}
