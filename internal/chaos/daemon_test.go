//go:build chaos && linux

package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/internal/faketime"
	"github.com/katsubushi/katsubushi/internal/redistest"
)

// A daemon is one place in the fleet: the process in it is another one after every restart.
type daemon struct {
	t     testing.TB
	name  string
	args  []string
	proxy *redistest.Proxy // between it and Redis
	addr  atomic.Pointer[string]
	busy  bool // a fault is happening to it

	cmd    *exec.Cmd
	clock  *faketime.Process // nil where clocks cannot be moved
	exited chan struct{}

	mu  sync.Mutex
	log bytes.Buffer // of all its processes

	seen sight
}

// Write takes in the log, and finds the address in it.
func (d *daemon) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range bytes.Lines(b) { // slog writes a record at a time
		var e struct{ Msg, Address string }
		if json.Unmarshal(line, &e) == nil && e.Msg == "listening" {
			d.addr.Store(&e.Address)
		}
	}
	return d.log.Write(b)
}

func (d *daemon) start() {
	d.t.Helper()
	d.cmd = exec.Command(d.args[0], d.args[1:]...)
	d.cmd.Stderr = d
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if d.clock, err = faketime.Start(d.cmd, 0); errors.Is(err, errors.ErrUnsupported) {
		d.cmd = exec.Command(d.args[0], d.args[1:]...)
		d.cmd.Stderr, d.clock = d, nil
		err = d.cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(d.cmd, d.exited)
}

// end sends a signal that ends the process, and waits for that; one that takes too long to stop is killed, which is an error.
func (d *daemon) end(s syscall.Signal) {
	d.cmd.Process.Signal(s)
	select {
	case <-d.exited:
	case <-time.After(5 * lease):
		d.t.Errorf("%s did not stop", d.name)
		d.cmd.Process.Kill()
		<-d.exited
	}
}

// tail is the end of its log.
func (d *daemon) tail(lines int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := strings.SplitAfter(d.log.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
