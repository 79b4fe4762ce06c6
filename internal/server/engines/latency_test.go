package engines

import (
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// Every answer is counted once, whichever turns are measured; and an answer for which the session waited
// counts from when it began to wait.
func TestLatency(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		histograms := make([]latency.Histogram, p.loops)
		r := start(t, m, p, func(c *server.Config) {
			unpolled(c)
			c.Latency = histograms
		})
		sum := func() (s latency.Snapshot) {
			for i := range histograms {
				s.Add(&histograms[i])
			}
			return s
		}
		const clients, each = 3, 40
		began := time.Now()
		var list []*client
		for range clients {
			list = append(list, r.dial())
		}
		for range each {
			for _, c := range list { // one at a time: each answer is for one read
				c.say("echo 1\r\n")
				c.expect("1\r\n")
			}
		}
		r.checkDurations(sum(), 0, time.Since(began))
		if s := sum(); s.Sum() <= 0 {
			t.Errorf("%d answers took no time at all", s.Count())
		}
		asked := r.well.asked.Load()
		list[0].say("take 1\r\n")
		r.parked(asked, 1)
		waits := time.Now()
		for time.Since(waits) < 3*time.Millisecond {
			list[1].say("echo 1\r\n")
			list[1].expect("1\r\n")
		}
		waited := time.Since(waits)
		r.fill(1)
		list[0].expect("1\r\n")
		list[0].say("echo 2\r\n") // does not wait
		list[0].expect("2\r\n")
		for _, c := range list {
			c.Close()
		}
		r.stop()
		r.checkDurations(sum(), waited, time.Since(began))
		// each has three bytes
		if n, written := sum().Count(), r.counters.BytesWritten.Load(); n < clients*each+2 || 3*n != written {
			t.Errorf("%d answers are counted, %d bytes were written", n, written)
		}
	})
}

// checkDurations checks the longest duration, to within a bucket.
func (r *rig) checkDurations(s latency.Snapshot, least, most time.Duration) {
	r.t.Helper()
	longest := s.Quantile(1)
	if s.Count() == 0 || longest < least*9/10 || longest > most*11/10+time.Microsecond {
		r.t.Errorf("the longest of %d answers took %v, want %v to %v", s.Count(), longest, least, most)
	}
}
