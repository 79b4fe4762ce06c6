//go:build !unix

package observe

import "time"

// cpuTime is not implemented on this system.
func cpuTime() (user, system time.Duration) { return 0, 0 }
