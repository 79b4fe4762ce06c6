package etcdtest

import (
	"os/exec"
	"runtime"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
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
func (m *Member) Pause() {
	m.t.Helper()
	redistest.Stop(m.t, m.cmd.Process)
}

// Resume ends a Pause.
func (m *Member) Resume() {
	m.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		m.t.Fatal(err)
	}
}
