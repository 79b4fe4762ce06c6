package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/leaserun"
	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/faketime"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// startCommand runs katsubushi's command line with a clock that is off.
func startCommand(t *testing.T, offset time.Duration, args ...string) *daemonrun.Daemon {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.WaitDelay = time.Second // for what the program that it runs leaves behind
	return daemonrun.RunShifted(t, cmd, offset)
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
	elsewhere.WaitListening(t)
	runs := append(append([]string{"run", "-redis", url}, shortLease...), "-log-format", "json", "--", "sleep", "1000")
	onHost := startCommand(t, 0, runs...)
	await(t, "the program runs", func() bool { return strings.Contains(onHost.Logged(), `"msg":"started"`) })

	step(server.Clock(), time.Hour)
	step(onHost.Clock, time.Hour)
	await(t, "the program is ended", onHost.HasEnded)
	if code := onHost.ProcessState.ExitCode(); code != leaserun.ExitLeaseOver {
		t.Errorf("exit code %d", code)
	}
	again := startCommand(t, time.Hour, runs...)
	await(t, "it is told to wait", func() bool {
		return strings.Contains(again.Logged(), "went forward") || strings.Contains(again.Logged(), `"msg":"started"`)
	})
	again.Process.Kill()
	release := append([]string{"lease", "release", "2", "-redis", url}, shortLease...)
	await(t, "the operator is answered in time", func() bool { // by Redis: a busy machine may not
		operator := startCommand(t, time.Hour, release...)
		<-operator.Ended()
		if code := operator.ProcessState.ExitCode(); code != exitOK && !tooSlow(operator.Logged()) {
			t.Fatalf("lease release: exit code %d", code)
		}
		return operator.ProcessState.ExitCode() == exitOK
	})
	step(server.Clock(), -time.Hour)

	var stats redis.Stats
	if runLease(t, url, &stats, "stats"); stats.ClockBack != 0 {
		t.Errorf("Redis's clock is %v s behind what was written down", stats.ClockBack)
	}
	extended := statistic(t, elsewhere.Addr(), "lease_extensions_ok")
	await(t, "the daemon extends again", func() bool {
		return statistic(t, elsewhere.Addr(), "lease_extensions_ok") > extended
	})
}
