package figure

import (
	"testing"
	"time"
)

// TestRenderings: each type of a value, in the statistics and on /metrics.
func TestRenderings(t *testing.T) {
	for _, c := range []struct {
		value, shown any
		number       float64
	}{
		{true, true, 1}, {false, false, 0}, {3, 3, 3}, {int64(-3), int64(-3), -3}, {uint64(7), uint64(7), 7},
		{0.25, 0.25, 0.25}, {-1500 * time.Millisecond, int64(-1500), -1.5}, {"text", "text", 0},
	} {
		f := Figure{Value: c.value}
		if f.Shown() != c.shown || f.Number() != c.number {
			t.Errorf("%v: %v and %v, want %v and %v", c.value, f.Shown(), f.Number(), c.shown, c.number)
		}
	}
}
