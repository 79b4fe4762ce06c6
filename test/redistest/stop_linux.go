package redistest

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Stop stops a child, and returns when all its threads stand still: until then one may still answer. SIGCONT lets
// it go on.
func Stop(t testing.TB, child *os.Process) {
	t.Helper()
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for { // the event stays, for a second Stop
		switch err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err {
		case unix.EINTR:
		case nil, unix.ECHILD: // it has ended
			return
		default:
			t.Fatal(err)
		}
	}
}
