package redistest

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// A process is a child that dies with this process, even when that is killed.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started the child
		defer runtime.UnlockOSThread()
		err := cmd.Start()
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

func (p *process) pause(t testing.TB)  { p.signal(t, syscall.SIGSTOP) }
func (p *process) resume(t testing.TB) { p.signal(t, syscall.SIGCONT) }
