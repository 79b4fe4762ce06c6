package etcdtest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startChild starts a child that dies with this process, even when that is killed. ended is closed
// after it.
func startChild(cmd *exec.Cmd) (ended chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started the child
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(ended)
	}()
	return ended, <-started
}

// Pause stops the process, as an overloaded host does; Resume lets it go on.
func (m *Member) Pause() { m.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}
