package clock

import "golang.org/x/sys/unix"

// Boot returns the time since the machine booted, in ns, at least 1; also what it slept counts. It is
// one system call.
func Boot() int64 {
	t, ok := read(unix.CLOCK_BOOTTIME)
	if !ok {
		panic("clock: there is no CLOCK_BOOTTIME") // Linux has it since 2.6.39
	}
	return max(1, int64(t))
}
