package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// unpolled makes parked sessions depend on Wake.
func unpolled(c *server.Config) { c.ParkPause = time.Hour }

// fill gives the well n tickets, and then wakes the engine.
func (r *rig) fill(n int) {
	r.well.tickets.Add(int64(n))
	r.engine.Wake()
}

// parked waits until a session has asked the well in vain n times more than when asked.
func (r *rig) parked(asked int64, n int) {
	r.t.Helper()
	eventually(r.t, func() string {
		if got := r.well.asked.Load() - asked; got < int64(n) {
			return fmt.Sprintf("the well was asked %d times in vain, want %d", got, n)
		}
		return ""
	})
}

// waits waits until the only session that waits has begun to: it was asked twice before its connection is parked, and
// once more after a Wake.
func (r *rig) waits(asked int64) {
	r.t.Helper()
	r.parked(asked, 2)
	r.engine.Wake()
	r.parked(asked, 3)
}

// A Wake between a session's answer that it must wait and the parking of its connection is not lost.
func TestWakeWhileParking(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		for vain := range int64(4) {
			r := start(t, m, p, unpolled)
			// Each question in vain wakes the engine before the session says that it must wait; the
			// last one also brings the ticket.
			dry := func() {
				if r.well.asked.Load() == vain+1 {
					r.well.tickets.Add(1)
				}
				r.engine.Wake()
			}
			r.well.dry.Store(&dry)
			c := r.dial()
			c.say("take %d\r\n", vain)
			c.expect(fmt.Sprintf("%d\r\n", vain))
			c.Close()
			r.stop()
		}
	})
}

// Nobody is forgotten and nobody answered twice, though others wake the engine all the time and
// there is never enough for all. Each connection gets its answers in order.
func TestWakeStorm(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const clients, rounds, takes = 40, 3, 5
		r := start(t, m, p, unpolled)
		var asking, waking sync.WaitGroup
		var left atomic.Int64 // tickets that are not in the well yet
		left.Store(clients * rounds * takes)
		for range 4 {
			waking.Go(func() {
				for left.Load() > 0 {
					if left.Add(-3) >= 0 {
						r.well.tickets.Add(3)
					} else if rest := left.Add(3); rest > 0 && rest < 3 && left.CompareAndSwap(rest, 0) {
						r.well.tickets.Add(rest)
					}
					r.engine.Wake()
					for r.well.tickets.Load() > 3 { // let them wait
						runtime.Gosched()
					}
				}
				r.engine.Wake()
			})
		}
		for i := range clients {
			c := r.dial()
			asking.Go(func() {
				for round := range rounds {
					var want strings.Builder
					for k := range takes {
						fmt.Fprintf(c, "take %d.%d.%d\r\necho %d\r\n", i, round, k, k)
						fmt.Fprintf(&want, "%d.%d.%d\r\n%d\r\n", i, round, k, k)
					}
					got := make([]byte, want.Len())
					if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want.String() {
						t.Errorf("got %q (%v), want %q", got[:n], err, want.String())
						left.Store(0)
						return
					}
				}
				fmt.Fprint(c, "quit\r\n")
				if rest, err := io.ReadAll(c.r); len(rest) > 0 || err != nil {
					t.Errorf("after the last answer: %q, %v", rest, err)
				}
			})
		}
		asking.Wait()
		waking.Wait()
		if n := r.well.tickets.Load(); n != 0 {
			t.Errorf("%d tickets are left", n)
		}
	})
}

// While many wait, the others of their loops are answered: those who wait get their answers only
// after the others have had theirs.
func TestOthersAreAnsweredMeanwhile(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const count = 50
		r := start(t, m, p, nil)
		var clients [count]*client
		asked := r.well.asked.Load()
		for i := range clients {
			clients[i] = r.dial()
			clients[i].say("take %d\r\n", i)
		}
		r.parked(asked, count)
		others := []*client{r.dial(), r.dial(), r.dial()}
		for i := range 30 {
			for _, c := range others {
				c.echo(i)
			}
			r.engine.Wake()
		}
		eventually(t, func() string { return r.open(int64(count + len(others))) })
		r.fill(count)
		for i, c := range clients {
			c.expect(fmt.Sprintf("%d\r\n", i))
		}
	})
}

// A session may wait in the middle of a reply, with no input left, and wherever the socket's buffer
// is full.
func TestParkedInTheMiddleOfAReply(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, unpolled)
		for size := 60_000; size < 1_000_000; size += 70_000 {
			c := r.dial()
			asked := r.well.asked.Load()
			c.say("split %d\r\n", size)
			if size%20_000 == 0 { // sometimes it reads first, sometimes it is deaf at first
				r.parkedOrStuck(asked)
			}
			half := size - size/2
			c.expectPart(size, half)
			r.parked(asked, 1)
			r.fill(1)
			c.expectPart(size-half, size-half)
			c.echo("end")
			c.Close()
		}
	})
}

// expectPart reads the next n bytes of a big reply of which left are left.
func (c *client) expectPart(left, n int) {
	c.t.Helper()
	for n > 0 {
		piece := bigBytes(left)
		piece = piece[:min(len(piece), n)]
		c.expect(piece)
		left, n = left-len(piece), n-len(piece)
	}
}
