package windows

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// TestAnIdleProgramIsWokenOnceASecond: the windows of all state files are extended at the same moments, and the clock
// is compared then too, whenever the program started. While ids are issued, or where windows do not reach far enough
// beyond the next beat, there is another extension between.
func TestAnIdleProgramIsWokenOnceASecond(t *testing.T) {
	for _, c := range []struct {
		runAhead time.Duration
		busy     bool
		every    time.Duration
	}{
		{time.Second, false, 2 * static.Heartbeat},
		{static.Heartbeat, false, 2 * static.Heartbeat},
		{static.Heartbeat - time.Millisecond, false, static.Heartbeat},
		{time.Second, true, static.Heartbeat},
	} {
		t.Run(fmt.Sprintf("run-ahead %v, busy %v", c.runAhead, c.busy), func(t *testing.T) {
			bubble(t, func(t *testing.T) { extensions(t, c.runAhead, c.busy, c.every) })
		})
	}
}

// extensions checks how often windows are extended and the clock is compared.
func extensions(t *testing.T, runAhead time.Duration, busy bool, every time.Duration) {
	var log said
	c := fixed(&log)
	c.WorkerIDs, c.StateDir, c.MaxRunAhead = []uint64{5, 6, 7}, t.TempDir(), runAhead
	h := New(c)
	t.Cleanup(func() { h.Stop(false) })
	var compared atomic.Int64
	also := h.Clock.EachSecond
	h.Clock.EachSecond = func() {
		if off := time.Since(h.Clock.Base()) % time.Second; off != 0 {
			t.Errorf("compared %v after a second", off)
		}
		compared.Add(1)
		also()
	}
	time.Sleep(130 * time.Millisecond)
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	h.Start()
	const step, span = 10 * time.Millisecond, 10 * time.Second
	pass := func() {
		if busy {
			if _, err := h.id(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(step)
		synctest.Wait()
	}
	time.Sleep(2*time.Second - time.Since(h.Clock.Base())) // the very first windows have begun
	for range 2 * time.Second / step {
		pass()
	}
	before, compared0 := h.Lanes(), compared.Load()
	extended := make([]int, len(before))
	for range span / step {
		pass()
		for lane, s := range h.Lanes() {
			if s.State != workerid.Serving {
				t.Errorf("lane %d: %v", lane, s.State)
			}
			if s.Hi == before[lane].Hi {
				continue
			}
			if off := time.Since(h.Clock.Base()) % every; off != 0 {
				t.Errorf("lane %d was extended %v after a beat", lane, off)
			}
			before[lane] = s
			extended[lane]++
		}
	}
	for lane, n := range extended {
		if want := int(span / every); n != want {
			t.Errorf("lane %d was extended %d times, want %d", lane, n, want)
		}
	}
	if n := compared.Load() - compared0; n != int64(span/time.Second) {
		t.Errorf("compared %d times in %v", n, span)
	}
}
