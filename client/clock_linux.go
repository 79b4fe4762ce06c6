package client

import (
	"syscall"
	"time"
	"unsafe"
)

// bootNanos reads CLOCK_BOOTTIME, which also runs while the machine sleeps.
func bootNanos() int64 {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)),
		0); errno != 0 {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
