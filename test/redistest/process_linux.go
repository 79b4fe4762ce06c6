package redistest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/test/faketime"
)

// A process is a child that dies with this process, even when that is killed.
type process struct {
	cmd   *exec.Cmd
	clock *faketime.Process // nil: the machine's
	ended chan struct{}
}

func startProcess(cmd *exec.Cmd, clocked bool) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started the child
		defer runtime.UnlockOSThread()
		var err error
		if clocked {
			p.clock, err = faketime.Start(cmd, 0)
		} else {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(p.ended)
	}()
	return p, <-started
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

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

func (p *process) pause(t testing.TB) {
	t.Helper()
	if p.clock == nil {
		Stop(t, p.cmd.Process)
	} else if err := p.clock.Pause(); err != nil { // so that a step meanwhile does not wake it
		t.Fatal(err)
	}
}

func (p *process) resume(t testing.TB) {
	t.Helper()
	if p.clock == nil {
		p.signal(t, syscall.SIGCONT)
	} else if err := p.clock.Resume(); err != nil {
		t.Fatal(err)
	}
}
