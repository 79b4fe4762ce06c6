package childprocess

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func dieWithThread(cmd *exec.Cmd) {
	var attr syscall.SysProcAttr
	if cmd.SysProcAttr != nil { // which other commands may share
		attr = *cmd.SysProcAttr
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
}

// Pause stops the process, as an overloaded host does. It returns when all threads stand still: until then one may
// still answer. Tests are skipped where there is no way.
func (c *Child) Pause(t testing.TB) {
	t.Helper()
	if c.Clock == nil {
		stop(t, c.Process)
	} else if err := c.Clock.Pause(); err != nil { // so that a step meanwhile does not wake it
		t.Fatal(err)
	}
}

// Resume ends a Pause.
func (c *Child) Resume(t testing.TB) {
	t.Helper()
	if c.Clock == nil {
		c.Signal(t, syscall.SIGCONT)
	} else if err := c.Clock.Resume(); err != nil {
		t.Fatal(err)
	}
}

func stop(t testing.TB, child *os.Process) {
	t.Helper()
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for { // the event stays, for a second Pause
		switch err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err {
		case unix.EINTR:
		case nil, unix.ECHILD: // it has ended
			return
		default:
			t.Fatal(err)
		}
	}
}
