//go:build !linux

package observe

import (
	"runtime"

	"github.com/katsubushi/katsubushi/v3/internal/page"
)

// processNow returns what is known of the process on this system: its CPU time.
func processNow() page.Process {
	user, system := cpuTime()
	return page.Process{CPU: user + system, Processors: runtime.NumCPU()}
}
