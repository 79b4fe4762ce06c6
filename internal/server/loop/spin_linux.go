package loop

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// threadUsage is usage of this thread, by two system calls that cannot block.
func threadUsage(preempted bool) (c consumption) {
	var t unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0)
	c.cpu = time.Duration(t.Nano())
	if preempted {
		var r unix.Rusage
		unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_THREAD, uintptr(unsafe.Pointer(&r)), 0)
		c.preempted = r.Nivcsw
	}
	return c
}

// Spin is called before the loop sleeps. It calls look, which must not block, until that has found input or it no
// longer pays, and returns whether there is input. The first look decides whether the loop is busy. A loop that does
// not spin at all is not asked to look.
func (l *Loop) Spin(look func() bool) bool {
	limit := l.spin.next()
	if limit == 0 {
		return false
	}
	if look() {
		l.spin.busy()
		return true
	}
	began := latency.Clock()
	for {
		found := look()
		if d := latency.Clock() - began; found || d >= limit {
			l.spin.took(d, found)
			return found
		}
	}
}
