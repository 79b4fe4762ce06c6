package main

import (
	"syscall"
	"testing"
	"time"
)

// What daemons do that are not told of a state directory.

// TestProcessClockStepsBackBeforeARestart: within a run the clock goes back by three seconds, which
// a busy daemon does not follow; then it is restarted, as for a new version. Whoever gives it no
// state directory has one by default.
func TestProcessClockStepsBackBeforeARestart(t *testing.T) {
	t.Parallel()
	began, c := time.Now(), census{lanes: 1}
	args := []string{"-worker-id", "28", "-state-dir", "", "-state-any-disk"}
	d := startShifted(t, 0, args...)
	l := c.load(t, d.Addr(), 4, 20)
	l.awaitMore(t, 2000)
	d.step(t, -3*time.Second)
	d.awaitDifference(t, -3*time.Second, time.Second)
	l.awaitMore(t, 2000)
	l.finish(t)
	d.end(t, syscall.SIGTERM)

	largest := c.newRun()
	d = startShifted(t, -3*time.Second, args...)
	l = c.load(t, d.Addr(), 4, 20)
	l.awaitMore(t, 2000)
	l.finish(t)
	c.above(t, largest)
	c.issuedBetween(t, began)
	c.verdict(t)
}
