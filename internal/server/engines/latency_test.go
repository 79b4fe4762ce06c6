package engines

import (
	"cmp"
	"strings"
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
				c.echo(1)
			}
		}
		r.checkDurations(sum(), 0, time.Since(began))
		if s := sum(); s.Sum() <= 0 {
			t.Errorf("%d answers took no time at all", s.Count())
		}
		asked := r.well.asked.Load()
		list[0].say("take 1\r\n")
		r.waits(asked)
		waits := time.Now()
		for time.Since(waits) < 3*time.Millisecond {
			list[1].say("echo 1\r\n")
			list[1].expect("1\r\n")
		}
		waited := time.Since(waits)
		r.engine.Wake() // in vain: it goes on waiting
		r.parked(asked, 4)
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

// A noting session notes the command that its input begins with, as if that were a name.
type noting struct {
	*countedSession
	asked *latency.Asked
	names map[string]*latency.Track
}

func (s noting) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	command, _, _ := strings.Cut(string(in), " ")
	if name := s.names[command]; name != nil {
		s.asked.Note(name)
	}
	return s.countedSession.Feed(now, in, out)
}

// What is known of a name is how long its own answers took: one that was waited for takes as long as the client
// waited, and does not count as another name's.
func TestLatencyOfNames(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		var echo, take latency.Track
		asked := make([]*latency.Asked, p.loops)
		for i := range asked {
			asked[i] = new(latency.Asked)
		}
		histograms := make([]latency.Histogram, p.loops)
		r := startPorts(t, m, func(c *server.Config) {
			unpolled(c)
			c.Latency, c.Asked = histograms, asked
		}, func(r *rig) []server.Port {
			port := r.port(p)
			port.Open = func(loop int, own *latency.Asked) server.Session {
				return noting{r.session(), cmp.Or(own, asked[loop]), map[string]*latency.Track{"echo": &echo, "take": &take}}
			}
			return []server.Port{port}
		})
		began := time.Now()
		a, b := r.dial(), r.dial()
		echoes := func() {
			a.echo(1)
		}
		for range 200 {
			echoes()
		}
		before := r.well.asked.Load()
		b.say("echo 1\r\ntake 1\r\n") // the second one has no answer yet
		b.expect("1\r\n")
		r.waits(before)
		// It waits longer than any other answer can have taken, however busy the machine is. The last answer has
		// no name: when it has come, what a named one took has been measured.
		waits := time.Now()
		for time.Since(waits) <= waits.Sub(began) {
			echoes()
		}
		a.say("big 3\r\n")
		a.expectBig(3)
		waited := time.Since(waits)
		r.fill(1)
		b.expect("1\r\n")
		for _, c := range []*client{a, b} {
			c.Close()
		}
		r.stop()
		n, wait := take.Total()
		if n != 1 || wait < waited || wait > time.Since(began) || take.Slowest() != wait {
			t.Errorf("%d answers that were waited for took %v, want %v or more", n, wait, waited)
		}
		if n, took := echo.Total(); n == 0 || took == 0 || echo.Slowest() >= wait {
			t.Errorf("the longest of %d other answers took %v, want less than %v", n, echo.Slowest(), wait)
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
