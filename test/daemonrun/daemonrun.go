// Package daemonrun runs the daemon of this tree as a process, for tests and tools that talk to it from outside.
package daemonrun

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// Loopback returns arguments for a daemon that other tests do not notice, and more: it listens on a free port of
// 127.0.0.1, has no HTTP port unless a -config or more say one, claims no worker id, and logs what a Daemon reads.
func Loopback(more ...string) []string {
	if !slices.Contains(more, "-config") {
		more = append([]string{"-http-port", "0"}, more...)
	}
	return append([]string{"-bind", "127.0.0.1", "-port", "0", "-log-format", "json", "-log-level", "debug",
		"-claim", "off"}, more...)
}

// A Daemon is a process, and what it logs as JSON. When its test ends it is killed, and its log is shown if the test
// has failed.
type Daemon struct {
	*childprocess.Child
	addresses sync.Map // by what is logged of them
}

// Start starts a daemon with Loopback, without a state directory, and with more arguments. It waits until the daemon
// listens.
func Start(t testing.TB, args ...string) *Daemon {
	t.Helper()
	d := Launch(t, args...)
	d.WaitListening(t)
	return d
}

// Launch is Start, but does not wait.
func Launch(t testing.TB, args ...string) *Daemon {
	t.Helper()
	return Run(t, Command(t, args...))
}

// Command is what Launch runs.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(Program(t), append(Loopback("-state-dir", "none"), args...)...)
}

// Run runs any command.
func Run(t testing.TB, cmd *exec.Cmd) *Daemon {
	t.Helper()
	c, err := childprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return Of(t, c)
}

// RunShifted runs a command with its wall clock off the machine's, or skips the test where that cannot be done.
func RunShifted(t testing.TB, cmd *exec.Cmd, off time.Duration) *Daemon {
	t.Helper()
	c, err := childprocess.StartShifted(cmd, off)
	if errors.Is(err, errors.ErrUnsupported) {
		childprocess.Missing(t, err)
	} else if err != nil {
		t.Fatal(err)
	}
	return Of(t, c)
}

// Of makes a daemon of a process that runs.
func Of(t testing.TB, c *childprocess.Child) *Daemon {
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("%q logged:\n%s", c.Args[1:], c.Log)
		}
	})
	return &Daemon{Child: c}
}

// Logged is what the daemon has logged.
func (d *Daemon) Logged() string { return d.Log.String() }

// Entry finds the first log line with a message; nil = none yet.
func (d *Daemon) Entry(msg string) map[string]any {
	for line := range strings.Lines(d.Logged()) {
		var e map[string]any
		// Most lines have another message, and Until comes by hundreds of times a second.
		if strings.Contains(line, msg) && json.Unmarshal([]byte(line), &e) == nil && e["msg"] == msg {
			return e
		}
	}
	return nil
}

// Addr is where the daemon listens; empty = it does not yet.
func (d *Daemon) Addr() string { return d.address("listening") }

// HTTP is where it listens for HTTP. It is known before Addr is.
func (d *Daemon) HTTP() string { return d.address("http listening") }

func (d *Daemon) address(msg string) string {
	if known, ok := d.addresses.Load(msg); ok {
		return known.(string)
	}
	address, _ := d.Entry(msg)["address"].(string)
	if address != "" {
		d.addresses.Store(msg, address)
	}
	return address
}

// WaitListening waits until the daemon listens, and fails the test if it ends.
func (d *Daemon) WaitListening(t testing.TB) {
	t.Helper()
	childprocess.Until(t, "the daemon listens", func() bool { return d.Addr() != "" || d.HasEnded() })
	if d.Addr() == "" {
		t.Fatal("the daemon has ended")
	}
}

// Says waits until the daemon has logged a text: what it did may be seen before its line arrives.
func (d *Daemon) Says(t testing.TB, text string) {
	t.Helper()
	childprocess.Until(t, "it logs "+text, func() bool { return strings.Contains(d.Logged(), text) })
}
