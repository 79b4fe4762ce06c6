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
)

// A Child is a process that may become the successor of this one.
type Child struct {
	*Link
	cmd    *exec.Cmd
	read   chan struct{} // closed when all that it wrote until Detach, or until its end, was read
	exited chan struct{}

	mu    sync.Mutex
	last  string // line that it wrote to stderr
	ended error  // valid once exited is closed
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
	link, other, err := pair()
	if err != nil {
		return nil, err
	}
	defer other.Close()
	cmd := exec.Command(path)
	cmd.Args = args
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = os.Stdin, os.Stdout, []*os.File{other, stderr}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.Contains(ours, name) {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, variable+"="+strconv.Itoa(3))
	c := &Child{Link: link, cmd: cmd, read: make(chan struct{}), exited: make(chan struct{})}
	lines, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the new program cannot be started: %w", err), link.Close())
	}
	go c.watch(lines, stderr)
	return c, nil
}

// watch passes the child's errors on and waits for its end.
func (c *Child) watch(lines io.Reader, to io.Writer) {
	defer close(c.exited)
	for r := bufio.NewReader(lines); ; {
		line, err := r.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			c.mu.Lock()
			c.last = strings.TrimSpace(line)
			c.mu.Unlock()
			io.WriteString(to, line)
		}
		if err != nil {
			break
		}
	}
	close(c.read)
	err := c.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	c.mu.Lock()
	c.ended = err
	c.mu.Unlock()
}

// Pid returns the number of the process.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Signal sends a signal.
func (c *Child) Signal(s os.Signal) { c.cmd.Process.Signal(s) }

// Exited is closed when the process has ended and all that it wrote has been read.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Flushed waits, for a second at most, until all is passed on that the process wrote before Detach.
func (c *Child) Flushed() {
	select {
	case <-c.read:
	case <-time.After(time.Second):
	}
}

// Kill ends the process, and returns when it has ended.
func (c *Child) Kill() {
	c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.exited
	c.Close()
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
			switch {
			case errors.Is(m.err, os.ErrDeadlineExceeded):
				return Message{}, late(why)
			case m.err != nil && !errors.Is(m.err, io.EOF):
				return Message{}, fmt.Errorf("the new process said nothing that is understood: %w", m.err)
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
