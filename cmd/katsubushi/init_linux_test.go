package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A terminal is a pseudo-terminal, and what a program wrote to it.
type terminal struct {
	*os.File // the side of the person
	cmd      *exec.Cmd
	mu       sync.Mutex
	text     string
	ended    chan struct{} // the program has ended
}

// inTerminal starts the program with a pseudo-terminal of its own.
func inTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { ptmx.Close() })
	number, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{File: ptmx, cmd: cmd, ended: make(chan struct{})}
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-term.ended
	})
	go func() {
		defer close(term.ended)
		b := make([]byte, 4096)
		for {
			n, err := ptmx.Read(b)
			term.mu.Lock()
			term.text += string(b[:n])
			term.mu.Unlock()
			if err != nil { // EIO when the program has ended
				cmd.Wait()
				return
			}
		}
	}()
	return term
}

// said returns what the program wrote, with line ends of files.
func (x *terminal) said() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.ReplaceAll(x.text, "\r\n", "\n")
}

// answer waits for a question and types a line.
func (x *terminal) answer(t *testing.T, question, line string) {
	t.Helper()
	await(t, question, func() bool {
		said := x.said()
		return strings.HasSuffix(said, question) || x.exited()
	})
	x.mu.Lock()
	x.text += "\r\n" // so that the same question can come again
	x.mu.Unlock()
	if _, err := io.WriteString(x, line); err != nil {
		t.Fatal(err)
	}
}

func (x *terminal) exited() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// TestOutputThatIsFull: nobody takes what was not written for all there is.
func TestOutputThatIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	dir := t.TempDir()
	for line, code := range map[string]int{
		"init -dir " + dir + " -defaults -hosts plain:h1": exitFailure,
		"user token x *=get -auth-file " + dir + "/users": exitFailure,
		"check-config -worker-id 1 -state-dir none":       exitFailure,
		"inspect 1":         exitFailure,
		"inspect 1 nothing": exitUsage,
		"help all":          exitFailure,
		"version":           exitFailure,
		"name list -json -state-any-disk -counters file://" + dir: exitFailure,
	} {
		errs := new(strings.Builder)
		if got := run(strings.Fields(line), variables{}, full, errs); got != code ||
			!strings.Contains(errs.String(), "its output is not whole: write /dev/full: no space left on device") {
			t.Errorf("%s: exit code %d: %s", line, got, errs)
		}
	}
	if len(written(t, dir)) == 0 {
		t.Error("init has written no file")
	}
}
