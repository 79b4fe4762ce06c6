package clock

import (
	"testing"
	"time"
)

// Moment is never before Boot, and not long after it.
func TestMomentIsBoot(t *testing.T) {
	for range 10_000 {
		before := Boot()
		moment := Moment()
		if after := Boot() + int64(around); moment < before || moment > after {
			t.Fatalf("%d, between %d and %d", moment, before, after)
		}
	}
	if asleep.Load() == nil {
		t.Error("each of 10,000 calls of Moment called Boot")
	}
}

// A reading counts as long as the machine cannot have slept since, and for a millisecond at most.
func TestReadingAfterSleep(t *testing.T) {
	const day = int64(24 * time.Hour)
	s := sleep{slept: 5 * day, apart: 20_000 * day, read: 3 * day}
	for _, c := range []struct {
		name       string
		wall, mono int64 // since the reading
		holds      bool
	}{
		{"at once", 0, 0, true},
		{"just before it is too old", 999_999, 999_999, true},
		{"too old", 1_000_000, 1_000_000, false},
		{"of another thread, which read the clocks before", -1, -1, false},
		{"one clock was read a little later", 100_900, 100_000, true},
		{"a sleep of 1 µs", 101_000, 100_000, false},
		{"a sleep of a day", day + 100_000, 100_000, false},
		{"the wall clock was set back", 100_000 - day, 100_000, false},
		{"the wall clock was set back by 1 µs", 99_000, 100_000, false},
	} {
		if s.holds(s.apart+s.read+c.wall, s.read+c.mono) != c.holds {
			t.Errorf("%s: not %v", c.name, c.holds)
		}
	}
}
