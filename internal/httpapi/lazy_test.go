package httpapi

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A timed connection counts the timers that are set.
type timed struct {
	net.Conn
	timers int
}

func (c *timed) SetReadDeadline(t time.Time) error {
	c.timers++
	return c.Conn.SetReadDeadline(t)
}

func (c *timed) SetWriteDeadline(t time.Time) error {
	c.timers++
	return c.Conn.SetWriteDeadline(t)
}

// withLazy runs a test with a lazy connection, what is below, and the other end, in a bubble.
func withLazy(t *testing.T, test func(t *testing.T, l *lazy, below *timed, peer net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		end, peer := net.Pipe()
		defer end.Close()
		defer peer.Close()
		below := &timed{Conn: end}
		test(t, newLazy(below), below, peer)
	})
}

// ends waits for the end of a call: when it is due, and because of that.
func ends(t *testing.T, due time.Duration, call func([]byte) (int, error)) {
	t.Helper()
	start := time.Now()
	if n, err := call(make([]byte, 8)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != due {
		t.Errorf("%d bytes, %v after %v, want it ended after %v", n, err, time.Since(start), due)
	}
}

// TestARequestSetsNoTimer: nor does the next one, nor the thousandth.
func TestARequestSetsNoTimer(t *testing.T) {
	withLazy(t, func(t *testing.T, l *lazy, below *timed, peer net.Conn) {
		now, buf := time.Now(), make([]byte, 8)
		for i := range 1000 {
			l.SetReadDeadline(now.Add(5 * time.Second)) // of the header
			go peer.Write([]byte("request"))
			if n, err := l.Read(buf); n != 7 || err != nil {
				t.Fatal(i, n, err)
			}
			l.SetReadDeadline(now.Add(10 * time.Second)) // of the request
			l.SetWriteDeadline(now.Add(30 * time.Second))
			l.SetReadDeadline(time.Unix(1, 0)) // the server ends a Read that it has begun beside the handler
			if n, err := l.Read(buf[:1]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(i, n, err)
			}
			l.SetReadDeadline(time.Time{})
			l.SetReadDeadline(now.Add(2 * time.Minute)) // of silence
			now = now.Add(time.Millisecond)
		}
		if below.timers != 2 {
			t.Errorf("%d timers, want one for each direction", below.timers)
		}
	})
}

// TestDeadlinesHold: each call ends when it is due, whatever was due before.
func TestDeadlinesHold(t *testing.T) {
	const early, late = time.Second, time.Minute
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for _, due := range []time.Duration{0, early, late} {
		withLazy(t, func(t *testing.T, l *lazy, _ *timed, _ net.Conn) {
			l.SetDeadline(in(early))
			l.SetDeadline(in(due))
			ends(t, due, l.Read)
			ends(t, 0, l.Read)
			l.SetDeadline(in(early))
			l.SetDeadline(in(due))
			ends(t, due, l.Write)
			l.SetDeadline(in(late))
			ends(t, late, l.Read)
		})
	}
}

// TestADeadlineEndsWhatIsUnderWay: also one that is set to a moment of long ago, in both directions.
func TestADeadlineEndsWhatIsUnderWay(t *testing.T) {
	withLazy(t, func(t *testing.T, l *lazy, _ *timed, _ net.Conn) {
		for _, moment := range []time.Time{time.Unix(1, 0), time.Now().Add(-1)} {
			for _, call := range []func([]byte) (int, error){l.Read, l.Write} {
				l.SetDeadline(time.Time{})
				start := time.Now()
				go func() {
					time.Sleep(time.Hour)
					l.SetDeadline(moment)
				}()
				if _, err := call(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Hour {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				synctest.Wait() // both directions have got their deadline
			}
		}
	})
}

// TestNoDeadlineEndsNothing: a timer of before lets what has no deadline go on, and what was written is counted once.
func TestNoDeadlineEndsNothing(t *testing.T) {
	withLazy(t, func(t *testing.T, l *lazy, _ *timed, peer net.Conn) {
		l.SetDeadline(time.Now().Add(time.Second))
		l.SetDeadline(time.Time{})
		buf := make([]byte, 8)
		go func() {
			peer.Read(buf[:3])
			time.Sleep(time.Hour)
			peer.Read(buf[3:])
			time.Sleep(time.Hour)
			peer.Write([]byte("late"))
		}()
		if n, err := l.Write([]byte("answers")); n != 7 || err != nil || string(buf[:7]) != "answers" {
			t.Errorf("%d, %v: %q", n, err, buf)
		}
		if n, err := l.Read(make([]byte, 8)); n != 4 || err != nil {
			t.Error(n, err)
		}
	})
}

// TestBusyIsTold: of more than 1,000 requests a second, five times a second at most.
func TestBusyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(0, new(Counters))
		told := 0
		c.busy = func() { told++ }
		end, peer := net.Pipe()
		defer peer.Close()
		admitted := c.admit(end)
		requests := func(n int, after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			for range n {
				c.place(admitted)
			}
			if told != want {
				t.Errorf("told %d times, want %d", told, want)
			}
		}
		requests(busyRequests, 0, 0) // nobody knows since when
		requests(busyRequests-1, busyTime-1, 0)
		requests(1, 0, 1)
		requests(10*busyRequests, 0, 1)
		requests(busyRequests, busyPause, 2)
		requests(busyRequests, busyTime, 2)
	})
}
