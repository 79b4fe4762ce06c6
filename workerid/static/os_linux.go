package static

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// claim takes a name that one process of this network namespace can have, whatever its state
// directory. It is given up at Close, and by the kernel when the process ends.
func claim(name string) (io.Closer, error) {
	l, err := net.Listen("unix", "@"+name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w%s", ErrInUse, holder(name))
	}
	return l, err
}

// holder says which process has the name, if that can be found out.
func holder(name string) string {
	c, err := net.Dial("unix", "@"+name) // which waits for nothing: where no more fit into the backlog it fails
	if err != nil {
		return ""
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	who := ""
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && cred.Pid > 0 {
			who = fmt.Sprintf(" by process %d", cred.Pid)
		}
	})
	return who
}

func readClocks() Clocks {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return processClocks()
	}
	wall := time.Now()
	return Clocks{Wall: wall.UnixMilli(), Boot: t.Nano() / int64(time.Millisecond), BootID: bootID()}
}

// bootID is read anew each time: a process that was restored from a checkpoint may be in another boot than the one it
// began in. It makes plain system calls, because package os hands the file to the runtime's poller, and that wakes a
// thread.
func bootID() string {
	fd, err := unix.Open("/proc/sys/kernel/random/boot_id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	b := make([]byte, 64)
	n, _ := unix.Read(fd, b)
	return strings.TrimSpace(string(b[:max(n, 0)]))
}
