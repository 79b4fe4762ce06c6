package upgrade

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Child is a process that may become the successor of this one. It has a process group of its own, and
// what its program starts is in that group too: a shell script that does not exec, for example.
type Child struct {
	*Link
	cmd    *exec.Cmd
	read   chan struct{} // closed when all that it wrote until Detach, or until its end, was read
	reaped chan struct{} // closed when the process has ended
	exited chan struct{} // closed when its last line is known too

	mu    sync.Mutex
	last  string // line that it wrote to stderr
	ended error  // valid once reaped is closed
}

// ours are variables that mean the process that they were set for.
var ours = []string{variable, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "WATCHDOG_PID"}

// Start starts a program with arguments, of which the first is the name to start its successor by, and
// with the environment of this process. Its errors go to stderr, line by line, until it calls Detach.
// The error says that there is no such program, or that it cannot be executed.
func Start(program string, args []string, stderr *os.File) (*Child, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("the new program cannot be started: %w", err)
	}
	// What it starts becomes a child of this process, not of process 1, when it ends: so End can wait for it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	link, other, err := pair()
	if err != nil {
		return nil, err
	}
	defer other.Close()
	lines, errors, err := os.Pipe()
	if err != nil {
		link.Close()
		return nil, err
	}
	defer errors.Close()
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Args = args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, errors
	cmd.ExtraFiles = []*os.File{other, stderr}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.Contains(ours, name) {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, variable+"="+strconv.Itoa(3))
	if err := cmd.Start(); err != nil {
		lines.Close()
		link.Close()
		return nil, fmt.Errorf("the new program cannot be started: %w", err)
	}
	link.from = cmd.Process.Pid
	c := &Child{
		Link: link, cmd: cmd,
		read: make(chan struct{}), reaped: make(chan struct{}), exited: make(chan struct{}),
	}
	go c.pass(lines, stderr)
	go c.wait()
	return c, nil
}

// pass passes the child's errors on. Other processes may have them open after its end.
func (c *Child) pass(lines io.ReadCloser, to io.Writer) {
	defer close(c.read)
	defer lines.Close()
	for r := bufio.NewReader(lines); ; {
		line, err := r.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			c.mu.Lock()
			c.last = strings.TrimSpace(line)
			c.mu.Unlock()
			io.WriteString(to, line)
		}
		if err != nil {
			return
		}
	}
}

// wait waits for the child's end.
func (c *Child) wait() {
	c.ended = c.cmd.Wait()
	if c.ended == nil {
		c.ended = errors.New("exit status 0")
	}
	close(c.reaped)
	c.Flushed()
	close(c.exited)
}

// Pid returns the number of the process.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Signal sends a signal to the process.
func (c *Child) Signal(s os.Signal) { c.cmd.Process.Signal(s) }

// Kill kills the process and all of its group, and does not wait.
func (c *Child) Kill() { unix.Kill(-c.Pid(), unix.SIGKILL) }

// Exited is closed when the process has ended and its last line has been passed on.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Flushed waits, for a second at most, until all is passed on that the process wrote before Detach.
func (c *Child) Flushed() {
	select {
	case <-c.read:
	case <-time.After(time.Second):
	}
}

// grace is how long End waits at least: a process that is killed has ended after some milliseconds.
const grace = time.Second

// End kills the process and what it has started, and waits until nothing of that is left and nothing can
// take this process for dead and go on. The error means that ctx, and grace, ended before that. served
// says that Serve was sent, so that a process which got it cannot be told any more that it must not go on.
func (c *Child) End(ctx context.Context, served bool) error {
	begun := time.Now()
	over := func() bool {
		time.Sleep(2 * time.Millisecond)
		return ctx.Err() != nil && time.Since(begun) > grace
	}
	for !c.groupEnded() {
		if over() {
			return fmt.Errorf("process %d was killed and has not ended", c.Pid())
		}
	}
	// What has left the group may have the other end of the link. It reads this before the end of the link.
	told := false
	if !c.alone() && !served {
		c.conn.SetWriteDeadline(time.Now().Add(time.Second))
		told = c.Send(Message{Kind: Refused, Why: "the process that started this one goes on"}) == nil
	}
	for !told && !c.alone() {
		if over() {
			return fmt.Errorf("a process that process %d started has its connection and has not ended", c.Pid())
		}
	}
	c.Close()
	return nil
}

// groupEnded kills the group. It reports whether nothing of it is left.
func (c *Child) groupEnded() bool {
	c.Kill()
	select {
	case <-c.reaped:
	default:
		return false
	}
	for { // children of the child have become this process's
		if pid, err := unix.Wait4(-c.Pid(), nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return unix.Kill(-c.Pid(), 0) == unix.ESRCH
		}
	}
}

// Await returns the next message that is not Waiting. The error says what went wrong instead: the
// process ended or is silent until ctx ends, says Refused, or something else than wanted.
func (c *Child) Await(ctx context.Context, wanted Kind) (Message, error) {
	type received struct {
		Message
		err error
	}
	next := make(chan received, 1)
	why := ""
	for {
		go func() {
			m, fds, err := c.Receive()
			CloseAll(fds) // it has none to give
			next <- received{m, err}
		}()
		select {
		case m := <-next:
			stranger := (*strangerError)(nil)
			switch {
			case errors.As(m.err, &stranger):
				return Message{}, m.err
			case errors.Is(m.err, os.ErrDeadlineExceeded):
				return Message{}, late(why)
			case m.err != nil && !errors.Is(m.err, io.EOF):
				return Message{}, fmt.Errorf("this process does not understand the new one: %w", m.err)
			case m.err != nil:
				return Message{}, c.end(ctx)
			case m.Kind == Waiting:
				why = m.Why
				continue
			case m.Kind == Refused:
				return Message{}, fmt.Errorf("the new process refuses: %s", m.Why)
			case m.Kind != wanted:
				return Message{}, fmt.Errorf("the new process said %.40q where %q was due", m.Kind, wanted)
			}
			return m.Message, nil
		case <-ctx.Done():
			return Message{}, late(why)
		}
	}
}

func late(why string) error {
	if why != "" {
		return fmt.Errorf("the new process was not ready in time: %s", why)
	}
	return errors.New("the new process said nothing in time")
}

// end says how the process ended.
func (c *Child) end(ctx context.Context) error {
	select {
	case <-c.exited:
	case <-ctx.Done():
		return errors.New("the new process has closed the connection")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == "" {
		return fmt.Errorf("the new process ended: %w", c.ended)
	}
	return fmt.Errorf("the new process ended: %w; its last line: %s", c.ended, c.last)
}
