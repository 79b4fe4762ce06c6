// Package childprocess runs programs as children of a test or of a tool: the daemon, and the servers that it needs. On
// Linux a child dies with the process that started it, even when that is killed.
package childprocess

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/faketime"
)

// patience is how long a condition may take to come true before a test fails.
const patience = 5 * time.Minute

// A Log keeps what programs write, or a logger of this one. It may be read meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Tail returns the last lines.
func (l *Log) Tail(lines int) string {
	all := strings.SplitAfter(strings.TrimSuffix(l.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// A Child is a process that was started. Its fields may be read by the one who started it, ProcessState once it
// has ended.
type Child struct {
	*exec.Cmd
	Log   *Log              // what it writes, unless Stdout or Stderr was set
	Clock *faketime.Process // moves its wall clock; nil = it has the machine's

	ended chan struct{}
}

// Start starts a command. Only the Child waits for it.
func Start(cmd *exec.Cmd) (*Child, error) {
	return start(cmd, func() (*faketime.Process, error) { return nil, cmd.Start() })
}

// StartShifted is Start with a wall clock of the child's own, which is off the machine's. The error may be
// errors.ErrUnsupported.
func StartShifted(cmd *exec.Cmd, off time.Duration) (*Child, error) {
	return start(cmd, func() (*faketime.Process, error) { return faketime.Start(cmd, off) })
}

func start(cmd *exec.Cmd, begin func() (*faketime.Process, error)) (*Child, error) {
	c := &Child{Cmd: cmd, Log: new(Log), ended: make(chan struct{})}
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = c.Log, c.Log
	}
	dieWithThread(cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the child dies when the thread ends that started it
		defer runtime.UnlockOSThread()
		var err error
		c.Clock, err = begin()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// Succeeded returns the child that a process is which took over from this one's, and writes into the same log. It has
// the machine's clock, and no exit code. Its end is that of both.
func (c *Child) Succeeded(pid int) (*Child, error) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, err
	}
	return &Child{Cmd: &exec.Cmd{Args: c.Args, Process: p}, Log: c.Log, ended: c.ended}, nil
}

// Ended is closed when the process has ended, and everything that it wrote is in the log.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// HasEnded says whether it is.
func (c *Child) HasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Kill ends the process at once, as a crash does, and waits for that.
func (c *Child) Kill() {
	c.Process.Kill()
	<-c.ended
}

// Signal sends a signal, and fails the test if the process has ended.
func (c *Child) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ErrEnded means that a process had ended before it was told to.
var ErrEnded = errors.New("it had ended")

// End sends a signal that is to end the process, and returns the exit code. A process that has not ended in time is
// killed, which is an error, and one that had ended is ErrEnded.
func (c *Child) End(s os.Signal, limit time.Duration) (code int, err error) {
	if err := c.Process.Signal(s); errors.Is(err, os.ErrProcessDone) {
		<-c.ended
		return c.ProcessState.ExitCode(), fmt.Errorf("%w: %v", ErrEnded, c.ProcessState)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.Kill()
		err = fmt.Errorf("it did not end within %v of %v", limit, s)
	}
	return c.ProcessState.ExitCode(), err
}

// Until waits for a condition, and fails the test when it does not come true. It looks often at first, because most
// conditions come true soon, and then less often: conditions read whole logs, and some ask daemons a lot.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	const seldom = 100 * time.Millisecond
	pause := time.Millisecond
	for deadline := time.Now().Add(patience); !is(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v not yet: %s", patience, what)
		}
		pause = min(pause*5/4, seldom)
	}
}

// Need returns the path of a program. Where there is none it skips the test, or fails it under KATSUBUSHI_REQUIRE=1.
func Need(t testing.TB, program string) (path string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(t, err)
	}
	return path
}

// Missing skips the test because something is missing here, or fails it under KATSUBUSHI_REQUIRE=1.
func Missing(t testing.TB, what ...any) {
	t.Helper()
	if os.Getenv("KATSUBUSHI_REQUIRE") == "1" {
		t.Fatal(what...)
	}
	t.Skip(what...)
}
