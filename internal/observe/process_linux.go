package observe

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/internal/page"
)

// processNow returns what the process takes of its host. Connections of io_uring are no descriptors.
func processNow() (p page.Process) {
	user, system := cpuTime()
	p.CPU, p.Processors = user+system, runtime.NumCPU()
	var all, resident int64
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		fmt.Sscan(string(text), &all, &resident)
		p.Memory = resident * int64(os.Getpagesize())
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		p.Files, p.MostFiles = openFiles(), limit.Cur
	}
	return p
}

// openFiles counts descriptors. Linux 6.2 and later say how many there are without a list of them.
func openFiles() int {
	const list = "/proc/self/fd"
	if info, err := os.Stat(list); err == nil && info.Size() > 0 {
		return int(info.Size())
	}
	entries, _ := os.ReadDir(list)
	return max(0, len(entries)-1) // one is the list's own
}
