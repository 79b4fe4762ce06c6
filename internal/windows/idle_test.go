package windows

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// TestAnIdleProgramIsWokenTwiceASecond: the windows of all state files are extended at the same moments, and the clock
// is compared at one in two of them, whenever the program started.
func TestAnIdleProgramIsWokenTwiceASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.WorkerIDs, c.StateDir = []uint64{5, 6, 7}, t.TempDir()
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
		time.Sleep(2*time.Second - time.Since(h.Clock.Base())) // the very first windows have begun
		synctest.Wait()
		const step, span = 10 * time.Millisecond, 10 * time.Second
		before, compared0 := h.Lanes(), compared.Load()
		extended := make([]int, len(before))
		for range span / step {
			time.Sleep(step)
			synctest.Wait()
			for lane, s := range h.Lanes() {
				if s.Hi == before[lane].Hi {
					continue
				}
				if off := time.Since(h.Clock.Base()) % static.Heartbeat; off != 0 {
					t.Errorf("lane %d was extended %v after a beat", lane, off)
				}
				before[lane] = s
				extended[lane]++
			}
		}
		for lane, n := range extended {
			if want := int(span / static.Heartbeat); n != want {
				t.Errorf("lane %d was extended %d times, want %d", lane, n, want)
			}
		}
		if n := compared.Load() - compared0; n != int64(span/time.Second) {
			t.Errorf("compared %d times in %v", n, span)
		}
	})
}
