//go:build unix

package leaserun

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// Signals returns the signals that are forwarded to the program.
func Signals() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGWINCH,
	}
}

// A child is a running program, which leads a process group of its own.
type child struct {
	cmd    *exec.Cmd
	cgroup *cgroup       // holds the program; nil if that is not possible
	tty    *terminal     // this process's terminal; nil if it has none
	elders map[int]bool  // children that this process had before; they are not the program's
	gone   chan struct{} // closed when the program and everything that it started are dead

	mu   sync.Mutex
	over bool // another process may have the program's pid by now
}

// startChild starts the program, in the cgroup if that is not nil. It returns when the program is
// running.
func startChild(cmd *exec.Cmd, g *cgroup) (*child, error) {
	c := &child{cmd: cmd, cgroup: g, gone: make(chan struct{})}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	catchStops()
	started := make(chan error)
	go func() {
		// The kernel kills the program when the thread that started it ends, so that thread must
		// outlive it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.wait()
			close(c.gone)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	// A process in the background may give the terminal away only while it ignores SIGTTOU.
	signal.Ignore(stops...)
	return c, nil
}

// stops are the signals by which a terminal stops a process. They must not stop this one while the
// program lives, because a stopped process cannot look at the clock.
var stops = []os.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}

// catchStops makes this process survive ^Z from before the program's start. It catches the signals
// and drops them: a program inherits signals that are ignored, but not those that are caught.
func catchStops() {
	dropped := make(chan os.Signal, 1)
	for _, s := range stops {
		if !signal.Ignored(s) { // else the program inherits that, as from a shell
			signal.Notify(dropped, s)
		}
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// signal sends a signal to the program alone. Signals that somebody may have typed go to its process
// group, as from a terminal.
func (c *child) signal(s os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := s.(syscall.Signal)
	if !ok || c.over {
		return
	}
	to := c.pid()
	if typed := n == syscall.SIGINT || n == syscall.SIGQUIT || n == syscall.SIGWINCH; typed && c.tty.ours() {
		to = -to
	}
	syscall.Kill(to, n)
}

// kill kills the program's process group and everything in the cgroup.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		syscall.Kill(-c.pid(), syscall.SIGKILL)
		c.cgroup.kill()
	}
}

// bury kills what is left, for the last time.
func (c *child) bury() {
	c.kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// code returns the program's exit code, after it is gone.
func (c *child) code() int {
	if s := c.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		return signalled(s.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}
