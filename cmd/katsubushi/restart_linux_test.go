package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The tests in this file kill the daemon, or stop it for a while, and start it with another wall clock than it had. What keeps the ids
// apart is the state directory.

// stateDir is arguments for a daemon whose windows are recorded. Killing a process loses nothing that it wrote, so any disk will do.
func stateDir(t *testing.T) []string {
	t.Helper()
	if help, _ := exec.Command(binary, "-help").Output(); !bytes.Contains(help, []byte("-state-dir")) {
		t.Skip("this daemon has no -state-dir")
	}
	return []string{"-state-dir", t.TempDir(), "-state-any-disk"}
}

// above fails the test if an id issued since the census had this largest one lies below it.
func (c *census) above(t *testing.T, largest uint64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runMin <= largest {
		t.Errorf("the new run issued %d; an earlier one had issued %d", c.runMin, largest)
	}
}

func TestProcessRestartThreeSecondsBack(t *testing.T) {
	t.Parallel()
	began, c := time.Now(), census{lanes: 1}
	args := append(stateDir(t), "-worker-id", "21", "-max-run-ahead", "200ms")
	d := startShifted(t, 0, args...)
	l := c.load(t, d.addr, 4, 20)
	d.awaitHeartbeats(t)
	l.kill(d.process)

	largest := c.newRun()
	d = launchShifted(t, -3*time.Second, args...)
	d.waitListening(t) // by itself: it neither exits nor needs a hand
	l = c.load(t, d.addr, 4, 20)
	l.awaitMore(t, 50_000)
	l.finish(t)
	c.above(t, largest)
	c.issuedBetween(t, began)
	c.verdict(t)
}

// pause stops all of the daemon for a while. It wakes up in another time, too.
func (s *shifted) pause(t *testing.T, d time.Duration) {
	t.Helper()
	if err := s.clock.Pause(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	await(t, "the pause ends", func() bool { return time.Since(stopped) > d })
	s.step(t, -time.Second)
	if err := s.clock.Resume(); err != nil {
		t.Fatal(err)
	}
}

// TestProcessStoppedForThreeWindows: a process that stands still for longer than its window reaches has lost nothing when it goes on.
func TestProcessStoppedForThreeWindows(t *testing.T) {
	t.Parallel()
	began, c := time.Now(), census{lanes: 1}
	d := startShifted(t, 0, append(stateDir(t), "-worker-id", "22", "-max-run-ahead", "200ms")...)
	l := c.load(t, d.addr, 4, 20)
	l.awaitMore(t, 20_000)
	const windows = 3 * (200*time.Millisecond + time.Second) // each is a second longer than the run-ahead
	d.pause(t, windows)
	l.awaitMore(t, 50_000)
	l.finish(t)
	c.issuedBetween(t, began)
	c.verdict(t)
}

// TestProcessClockAYearAheadAndBack: a clock that is a year ahead for a while shows neither in the ids nor in what is recorded, so that
// the next run does not wait for a year.
func TestProcessClockAYearAheadAndBack(t *testing.T) {
	t.Parallel()
	began, c := time.Now(), census{lanes: 1}
	args := append(stateDir(t), "-worker-id", "23")
	d := startShifted(t, 0, args...)
	l := c.load(t, d.addr, 4, 20)
	d.step(t, year)
	d.awaitDifference(t, year, time.Minute)
	d.awaitHeartbeats(t)
	d.step(t, -year)
	d.awaitDifference(t, 0, time.Minute)
	l.kill(d.process)

	largest := c.newRun()
	d = startShifted(t, 0, args...)
	l = c.load(t, d.addr, 4, 20)
	l.awaitMore(t, 20_000)
	l.finish(t)
	c.above(t, largest)
	c.issuedBetween(t, began)
	c.verdict(t)
}

// TestProcessStartedAYearAhead: a daemon whose clock is a year ahead when it starts waits instead of recording that year, and serves as
// soon as the clock is set right.
func TestProcessStartedAYearAhead(t *testing.T) {
	t.Parallel()
	began, c := time.Now(), census{lanes: 1}
	args := append(stateDir(t), "-worker-id", "25")
	d := startShifted(t, 0, args...)
	l := c.load(t, d.addr, 4, 20)
	l.awaitMore(t, 20_000)
	l.kill(d.process)

	largest := c.newRun()
	d = launchShifted(t, year, args...)
	await(t, "it says that it does not trust its clock", func() bool { return strings.Contains(d.logged(), "the clock went 8760h0m") })
	d.step(t, -year)
	d.waitListening(t)
	l = c.load(t, d.addr, 4, 20)
	l.awaitMore(t, 20_000)
	l.finish(t)
	c.above(t, largest)
	c.issuedBetween(t, began)
	c.verdict(t)
}

// A round of the kill loop is one run of the daemon. Everything in it is drawn from the seed and the round's number.
type round struct {
	step     time.Duration // of the clock, before the run
	underway time.Duration // of the clock, while clients are at it
	keys     int
	pause    time.Duration // for which the daemon is stopped, shortly before it is killed
	ids      int64         // after so many it is killed,
	early    time.Duration // or so soon after its start, whatever it is doing then
}

func drawRound(seed uint64, i int) round {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
	d := round{step: between(-3*time.Second, 3*time.Second), keys: 1 + r.IntN(200), ids: 1 << r.IntN(20)}
	if r.IntN(3) == 0 {
		d.underway = between(-3*time.Second, 3*time.Second)
	}
	if r.IntN(16) == 0 {
		d.pause = between(0, 4*time.Second)
	}
	if r.IntN(8) == 0 {
		d.early = between(time.Microsecond, 20*time.Millisecond)
	}
	return d
}

// TestProcessKillLoop kills the daemon with SIGKILL in the middle of its work, moves its clock and starts it again: 5 rounds, or 1,000
// with KATSUBUSHI_SOAK=1, which takes about half an hour. KATSUBUSHI_SEED repeats a run's plan.
func TestProcessKillLoop(t *testing.T) {
	t.Parallel()
	rounds := 5
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		rounds = 1000
	}
	seed := rand.Uint64()
	if s := os.Getenv("KATSUBUSHI_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	args := append(stateDir(t), "-worker-id", "24")
	c := census{lanes: 1}
	offset := time.Duration(0)
	for i := range rounds {
		plan := drawRound(seed, i)
		offset += plan.step
		passed := t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Logf("KATSUBUSHI_SEED=%d, clock %v off: %+v", seed, offset, plan)
			plan.run(t, &c, offset, args)
		})
		offset += plan.underway
		if !passed {
			break
		}
		if (i+1)%100 == 0 {
			t.Logf("%d rounds, %v", i+1, &c.ids)
		}
	}
	c.verdict(t)
	t.Logf("KATSUBUSHI_SEED=%d: %d rounds, %v", seed, rounds, &c.ids)
}

func (r round) run(t *testing.T, c *census, offset time.Duration, args []string) {
	largest := c.newRun()
	d := launchShifted(t, offset, args...)
	if r.early > 0 {
		time.Sleep(r.early) // no condition: the kill shall come at any point of its start
		d.Process.Kill()
		<-d.exited
		return
	}
	d.waitListening(t)
	l := c.load(t, d.addr, 4, r.keys)
	l.awaitMore(t, r.ids/2)
	if r.underway != 0 {
		d.step(t, r.underway)
	}
	l.awaitMore(t, r.ids/2)
	if r.pause != 0 {
		d.pause(t, r.pause)
		l.awaitMore(t, 1)
	}
	l.kill(d.process)
	c.above(t, largest)
	if id, found := c.ids.Duplicate(); found {
		t.Errorf("id %d twice", id)
	}
}
