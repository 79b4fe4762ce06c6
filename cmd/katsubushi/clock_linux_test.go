package main

import (
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
)

// The tests in this file move the wall clock of the daemon, and of nothing else, while clients are
// at it. They run in parallel, because they mostly wait for the daemon to look at its clocks, and
// so each has a worker id of its own.

// launchShifted launches the daemon with its wall clock off the machine's, or skips the test where
// that cannot be done.
func launchShifted(t *testing.T, offset time.Duration, args ...string) *process {
	t.Helper()
	return &process{daemonrun.RunShifted(t, daemonrun.Command(t, args...), offset)}
}

func startShifted(t *testing.T, offset time.Duration, args ...string) *process {
	t.Helper()
	s := launchShifted(t, offset, args...)
	s.WaitListening(t)
	return s
}

func (s *process) step(t *testing.T, d time.Duration) {
	t.Helper()
	if err := s.Clock.Step(d); err != nil {
		t.Fatal(err)
	}
}

// difference is how far the wall clock was from the id clock when the daemon compared them.
func (s *process) difference(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(statistic(t, s.Addr(), "clock_difference_ms")) * time.Millisecond
}

// TestProcessPlantedDuplicates lets real daemons make real duplicates, by the one thing that is not
// promised: without a state directory the clock goes back between two runs. Tests that find no
// duplicates elsewhere would find them.
func TestProcessPlantedDuplicates(t *testing.T) {
	t.Parallel()
	c := census{lanes: 1, hasty: true}
	began := time.Now()
	first := startShifted(t, 0, "-worker-id", "15")
	l := c.load(t, first.Addr(), 4, 100)
	l.awaitMore(t, 50_000)
	l.kill(first)
	if c.ids.Duplicates() != 0 {
		t.Fatalf("%v of one daemon", &c.ids)
	}
	// On a busy machine the second daemon may start when its clock has passed the first one's ids.
	for early := 200 * time.Millisecond; c.ids.Duplicates() == 0 && early < time.Minute; early *= 4 {
		last := c.newRun()
		second := startShifted(t, -time.Since(began)-early, "-worker-id", "15")
		l = c.load(t, second.Addr(), 4, 100)
		await(t, "a duplicate is found, or cannot be any more", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.ids.Duplicates() > 0 || c.max > last
		})
		l.kill(second)
	}
	if c.ids.Duplicates() == 0 {
		t.Errorf("none was found: %v", &c.ids)
	}
	t.Log(c.ids.String())
}
