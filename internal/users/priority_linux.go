package users

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// niceness is of a process that compares beside the daemon. It gives way to event loops at once, and still
// gets a tenth of a processor that others would take whole: a login ends while the host is busy.
const niceness = 10

// lowerPriority makes all threads of this process nice. Those that come later inherit that, but one may be
// made by a thread that is not yet nice; so it looks until there was no such thread.
func lowerPriority() error {
	for {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		changed := false
		for _, task := range tasks {
			id, _ := strconv.Atoi(task.Name())
			// The system call says 20 minus the niceness.
			if now, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err != nil || 20-now >= niceness {
				continue // it has ended, or is nice already
			}
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
			changed = true
		}
		if !changed {
			return nil
		}
	}
}
