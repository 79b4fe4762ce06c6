package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/leaserun"
	"github.com/katsubushi/katsubushi/v3/test/faketime"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// A command is one that runs with a wall clock of its own.
type command struct {
	*faketime.Process
	exited chan struct{}
	cmd    *exec.Cmd

	mu  sync.Mutex
	out bytes.Buffer
}

func (c *command) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

func (c *command) said(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.out.String(), text)
}

func (c *command) ended() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// startCommand runs katsubushi's command line with a clock that is off.
func startCommand(t *testing.T, offset time.Duration, args ...string) *command {
	t.Helper()
	c := &command{cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.WaitDelay = c, c, time.Second
	var err error
	if c.Process, err = faketime.Start(c.cmd, offset); errors.Is(err, errors.ErrUnsupported) &&
		os.Getenv("KATSUBUSHI_REQUIRE") != "1" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	go func() {
		c.cmd.Wait()
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		<-c.exited
		if t.Failed() {
			t.Logf("%q:\n%s", args, &c.out)
		}
	})
	return c
}

// TestProcessClockAnHourAheadForAMoment: a host on which Redis and `katsubushi run` are, and where
// an operator sits, has a clock that is an hour ahead for a moment. run ends its program, which
// goes by that clock, is started again and ended, and the operator takes a worker id away. Nothing
// of that hour may be written down, else a daemon elsewhere, whose clock is right, is refused for
// an hour.
func TestProcessClockAnHourAheadForAMoment(t *testing.T) {
	t.Parallel()
	server := redistest.StartClocked(t)
	if server.Clock() == nil {
		t.Skip("clocks cannot be moved here")
	}
	url := server.URL()
	initPool(t, url)
	step := func(c *faketime.Process, by time.Duration) {
		t.Helper()
		if err := c.Step(by); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := launchLeasing(t, url)
	elsewhere.waitListening(t)
	runs := append(append([]string{"run", "-redis", url}, shortLease...), "-log-format", "json", "--", "sleep", "1000")
	onHost := startCommand(t, 0, runs...)
	await(t, "the program runs", func() bool { return onHost.said(`"msg":"started"`) })

	step(server.Clock(), time.Hour)
	step(onHost.Process, time.Hour)
	await(t, "the program is ended", onHost.ended)
	if code := onHost.cmd.ProcessState.ExitCode(); code != leaserun.ExitLeaseOver {
		t.Errorf("exit code %d", code)
	}
	again := startCommand(t, time.Hour, runs...)
	await(t, "it is told to wait", func() bool { return again.said("went forward") || again.said(`"msg":"started"`) })
	again.cmd.Process.Kill()
	operator := startCommand(t, time.Hour, append([]string{"lease", "release", "2", "-redis", url}, shortLease...)...)
	await(t, "the operator is answered", operator.ended)
	if code := operator.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("lease release: exit code %d", code)
	}
	step(server.Clock(), -time.Hour)

	var stats redis.Stats
	if runLease(t, url, &stats, "stats"); stats.ClockBack != 0 {
		t.Errorf("Redis's clock is %v s behind what was written down", stats.ClockBack)
	}
	extended := statistic(t, elsewhere.addr, "lease_extensions_ok")
	await(t, "the daemon extends again", func() bool {
		return statistic(t, elsewhere.addr, "lease_extensions_ok") > extended
	})
}
