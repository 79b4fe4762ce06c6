package page

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// TestHistory: one sample at once and then one every five seconds, for ten minutes; the snapshots of
// latency of the last minute.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n, answers := new(History), uint64(0), new(latency.Histogram)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.Run(ctx, func(d time.Duration) time.Duration { return d }, func() Sample {
				n += 10
				answers.Observe(time.Duration(n)*time.Microsecond, 100)
				s := Sample{At: time.Now(), IDs: n, Latency: new(latency.Snapshot)}
				s.Latency.Add(answers)
				return s
			})
		}()
		synctest.Wait()
		if list := h.all(time.Now()); len(list) != 1 || len(rates(list, time.Now(), func(s *Sample) uint64 {
			return s.IDs
		})) != 0 {
			t.Errorf("at the start there are %d samples", len(list))
		}
		time.Sleep(Span + time.Minute + time.Second)
		synctest.Wait()
		now := time.Now()
		list := h.all(now)
		points := rates(list, now, func(s *Sample) uint64 { return s.IDs })
		if len(list) != 121 || len(points) != 120 || points[0].value != 2 || points[119].ago != time.Second ||
			points[0].ago != Span-4*time.Second {
			t.Errorf("%d samples, %d points, the first %+v, the last %+v", len(list), len(points), points[0],
				points[len(points)-1])
		}
		kept := 0
		for i, s := range list {
			if s.Latency != nil {
				kept++
			}
			if s.p99 < time.Duration(s.IDs)*time.Microsecond*9/10 || s.p99 > time.Duration(s.IDs)*time.Microsecond*11/10 {
				t.Errorf("sample %d: p99 %v, the answers took %d µs", i, s.p99, s.IDs)
			}
		}
		last := lastMinute(list, &list[120])
		if kept != snapshots || last == nil || last.Count() != 1200 {
			t.Errorf("%d snapshots, %v", kept, last)
		}
		cancel()
		<-ended
		if got := len(h.all(now.Add(5 * time.Minute))); got < 60 || got > 62 {
			t.Errorf("five minutes later %d samples are young enough", got)
		}
		if got := len(h.all(now.Add(time.Hour))); got != 0 {
			t.Errorf("an hour later %d samples are young enough", got)
		}
	})
}

// TestRates: by the time that has really passed; a count that went back is no rate.
func TestRates(t *testing.T) {
	at := func(s int, n uint64) Sample { return Sample{At: noon.Add(time.Duration(s) * time.Second), IDs: n} }
	got := rates([]Sample{at(0, 10), at(5, 20), at(25, 60), at(25, 70), at(30, 7)}, noon.Add(30*time.Second),
		func(s *Sample) uint64 {
			return s.IDs
		})
	want := []point{{25 * time.Second, 2}, {5 * time.Second, 2}, {0, 0}}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestChart: the peak is near the top, zero at the bottom, ten minutes ago at the left edge.
func TestChart(t *testing.T) {
	c := chart{title: "ids a second", now: "50", points: []point{{Span, 100}, {Span / 2, 0}, {0, 50}}, show: amount}
	nothing := chart{title: "ids a second", show: amount}
	for got, want := range map[string]string{
		c.line():         "M0.0 8.0L300.0 100.0L600.0 54.0",
		c.area():         "M0.0 100L0.0 8.0L300.0 100.0L600.0 54.0L600.0 100Z",
		c.said():         "ids a second over the last 10 minutes: now 50, at most 100",
		c.show(c.peak()): "100",
		nothing.said():   "ids a second: not measured yet",
		chart{points: []point{{time.Minute, 0}}}.line(): "M540.0 100.0", // of nothing but 0
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLatencyOfSilence: minutes without requests are at 0, and not on a line between those with some.
func TestLatencyOfSilence(t *testing.T) {
	v := healthy()
	h, answers := new(History), new(latency.Histogram)
	for i := range samples {
		s := Sample{At: noon.Add(time.Duration(i+1-samples) * Every), Latency: new(latency.Snapshot)}
		if i == 10 || i == 60 {
			answers.Observe(time.Millisecond, 1)
		}
		s.Latency.Add(answers)
		h.add(s)
	}
	points := newDocument(v, h, "", true).latency().points
	if len(points) != samples-1 {
		t.Fatalf("%d points between %d samples", len(points), samples)
	}
	for i, p := range points {
		if (p.value > 0) != (i+1 == 10 || i+1 == 60) {
			t.Errorf("sample %d: %v s", i+1, p.value)
		}
	}
}
