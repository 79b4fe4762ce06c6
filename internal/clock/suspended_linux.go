package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns how long the machine has slept since boot.
func suspended() time.Duration { return apart(unix.CLOCK_MONOTONIC, unix.CLOCK_BOOTTIME, read) }

// apart returns second − first. If this process were paused between the two readings (busy machine, CPU
// quota, signal), the pause would look like sleep. So it reads the first clock before and after the
// second one, until both readings agree.
func apart(first, second int32, read func(clock int32) (time.Duration, bool)) time.Duration {
	for {
		before, ok1 := read(first)
		between, ok2 := read(second)
		after, ok3 := read(first)
		switch {
		case !ok1 || !ok2 || !ok3:
			return 0
		case after-before < noise:
			return between - before
		}
	}
}

func read(clock int32) (t time.Duration, ok bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(clock, &ts)
	return time.Duration(ts.Nano()), err == nil
}
