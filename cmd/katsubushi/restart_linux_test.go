package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The tests in this file kill the daemon and restart it with a different wall clock, or pause it. The
// state directory keeps the ids unique.

// onDisk returns arguments for a daemon that records its windows in the temporary directory.
func onDisk(t *testing.T) []string {
	return []string{"-state-dir", t.TempDir(), "-state-any-disk"}
}

// inMemory returns arguments for a daemon with a state directory in memory, so that a busy disk does
// not slow it down. A killed process loses nothing by that.
func inMemory(t *testing.T) []string {
	dir, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Log(err)
		return onDisk(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return []string{"-state-dir", dir, "-state-any-disk"}
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

// pause stops the whole daemon for a while. Its clock has moved when it wakes up.
func (s *process) pause(t *testing.T, d time.Duration) {
	t.Helper()
	if err := s.Clock.Pause(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	await(t, "the pause ends", func() bool { return time.Since(stopped) > d })
	s.step(t, -time.Second)
	if err := s.Clock.Resume(); err != nil {
		t.Fatal(err)
	}
}

// A round of the kill loop is one run of the daemon. Everything in it is drawn from the seed.
type round struct {
	Step     time.Duration // of the clock, before the run
	Underway time.Duration // of the clock, while clients are at it
	Keys     int           // of the longer of the clients' requests
	Pause    time.Duration // for which the daemon is stopped, shortly before it is killed
	IDs      int64         // after so many it is killed,
	Early    time.Duration // or so soon after its start, whatever it is doing then
}

func drawRound(r *rand.Rand) round {
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
	const step = 3 * time.Second
	d := round{Step: between(-step, step), Keys: 1 + r.IntN(200)}
	d.IDs = int64(d.Keys) << r.IntN(12)
	if r.IntN(3) == 0 {
		d.Underway = between(-step, step)
	}
	if r.IntN(16) == 0 {
		d.Pause = between(0, 4*time.Second)
	}
	if r.IntN(8) == 0 {
		d.Early = between(time.Microsecond, 20*time.Millisecond)
	}
	return d
}

// TestProcessKillLoop kills the daemon with SIGKILL under load, moves its clock and restarts it: 5
// rounds, or 1,000 with KATSUBUSHI_SOAK=1. Eight walks run in parallel, because they mostly wait for
// their clocks. KATSUBUSHI_SEED repeats a plan.
func TestProcessKillLoop(t *testing.T) {
	t.Parallel()
	walks, rounds := 1, 5
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		walks, rounds = 8, 125
	}
	seed := rand.Uint64()
	if s := os.Getenv("KATSUBUSHI_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("KATSUBUSHI_SEED=%d", seed)
	var all sync.WaitGroup
	var done atomic.Int64
	counts := make([]census, walks)
	for walk := range walks {
		c := &counts[walk]
		c.lanes, c.hasty = 1, true
		all.Go(func() {
			t.Run(fmt.Sprint("walk ", walk), func(t *testing.T) {
				done.Add(c.walk(t, walk, rounds, rand.New(rand.NewPCG(seed, uint64(walk)))))
			})
		})
	}
	all.Wait()
	var ids, duplicates uint64
	for i := range counts {
		ids, duplicates = ids+counts[i].ids.Len(), duplicates+counts[i].ids.Duplicates()
	}
	t.Logf("KATSUBUSHI_SEED=%d: %d rounds, %d duplicates of %d ids", seed, done.Load(), duplicates, ids+duplicates)
}

// walk kills and restarts one daemon, whose clock wanders, and returns after how many rounds it ended.
func (c *census) walk(t *testing.T, walk, rounds int, r *rand.Rand) int64 {
	args := inMemory(t)
	if walk%2 == 1 {
		args = onDisk(t)
	}
	// A claim ends with its process. It is valid on the whole host, so no other test may use the
	// worker id.
	args = append(args, "-claim", "on", "-worker-id", fmt.Sprint(128*walk+r.IntN(128)))
	var offset time.Duration
	for i := range rounds {
		plan := drawRound(r)
		offset += plan.Step
		passed := t.Run(fmt.Sprint("round ", i), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("clock %v off, %+v", offset, plan)
				}
			}()
			plan.run(t, c, offset, args)
		})
		offset += plan.Underway
		if !passed {
			return int64(i + 1)
		}
	}
	c.verdict(t)
	return int64(rounds)
}

func (r round) run(t *testing.T, c *census, offset time.Duration, args []string) {
	largest := c.newRun()
	d := launchShifted(t, offset, args...)
	if r.Early > 0 {
		time.Sleep(r.Early) // no condition: the kill shall come at any point of its start
		d.Kill()
		return
	}
	d.WaitListening(t)
	l := c.load(t, d.Addr(), 4, r.Keys)
	l.awaitMore(t, r.IDs/2)
	if r.Underway != 0 {
		d.step(t, r.Underway)
	}
	l.awaitMore(t, r.IDs/2)
	if r.Pause != 0 {
		d.pause(t, r.Pause)
		l.awaitMore(t, 1)
	}
	l.kill(d)
	c.above(t, largest)
	if id, found := c.ids.Duplicate(); found {
		t.Errorf("id %d twice", id)
	}
}
