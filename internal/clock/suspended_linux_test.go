package clock

import (
	"testing"
	"time"
)

// A process that does not run for an hour between any two readings of the clocks does not take that
// for sleep of the machine.
func TestAPauseBetweenReadingsIsNotSleep(t *testing.T) {
	const slept = 3 * time.Hour
	for pause := range 5 {
		var now time.Duration
		readings := 0
		got := apart(0, 1, func(clock int32) (time.Duration, bool) {
			if readings++; readings == pause {
				now += time.Hour
			}
			now += time.Microsecond
			return now + time.Duration(clock)*slept, true
		})
		if off := (got - slept).Abs(); off >= noise {
			t.Errorf("a pause before reading %d: %v off", pause, off)
		}
	}
}
