//go:build !unix

package daemon

import "time"

// cpuTime is not asked for here.
func cpuTime() (user, system time.Duration) { return 0, 0 }
