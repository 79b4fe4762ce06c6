//go:build !linux

package clock

import "time"

var started = time.Now()

// Boot returns the time since this process started, in ns, at least 1. On this system it may not count what
// the machine slept.
func Boot() int64 { return max(1, int64(time.Since(started))) }

// Moment returns what Boot returns.
func Moment() int64 { return Boot() }
