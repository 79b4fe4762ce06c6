package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// Of what a client sends while it waits, little is read: nothing, or what io_uring receives before it
// hears that it must stop. The budget counts it.
func TestLittleIsReadWhileParked(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const clients = 10
		r := start(t, m, p, nil)
		line := []byte(strings.Repeat("echo 0123456789\r\n", 1000))
		var cs []*client
		for range clients {
			c := r.dial()
			asked := r.well.asked.Load()
			c.say("take 1\r\n")
			r.parked(asked, 1)
			cs = append(cs, c)
		}
		before := r.counters.BytesRead.Load()
		var writing sync.WaitGroup
		for _, c := range cs {
			writing.Go(func() { // 40 MB fill the socket's buffers
				for range 2500 {
					if _, err := c.Write(line); err != nil {
						return
					}
				}
			})
		}
		r.parked(r.well.asked.Load(), 5*clients)
		read, _ := r.settled()
		limit := uint64(64 << 10)
		if m.name == "uring" {
			limit *= 4
		}
		if read -= before; read > clients*limit {
			t.Errorf("%d bytes read from %d clients that wait", read, clients)
		}
		eventually(t, func() string { // what was read is counted before it is held
			if held := r.budget.Held(); m.name != "net" && held < int64(read) {
				return fmt.Sprintf("%d bytes held, %d were read while parked", held, read)
			}
			return ""
		})
		r.fill(1)
		r.fill(clients - 1)
		cs[0].expect("1\r\n0123456789\r\n0123456789\r\n")
		for _, c := range cs {
			c.abort()
		}
		writing.Wait()
	})
}

// The waiting does not make a client idle: it is answered however long it has waited, and has the
// whole time-out for its next request.
func TestParkedConnectionIsNotIdle(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		patiently(t, 30*time.Millisecond, func(timeout time.Duration) error {
			r := start(t, m, p, func(c *server.Config) {
				unpolled(c)
				c.IdleTimeout = timeout
			})
			c := r.dial()
			if _, err := io.WriteString(c, "take 1\r\n"); err != nil {
				return err // it was idle before
			}
			eventually(t, func() string {
				if r.well.asked.Load() == 0 && r.counters.IdleClosed.Load() == 0 {
					return "the client neither waits nor is closed"
				}
				return ""
			})
			for range 2 {
				silent := r.dial()
				silent.expectEOF() // it was idle
				silent.Close()
			}
			if n := r.counters.IdleClosed.Load(); n != 2 {
				return fmt.Errorf("%d connections closed for being idle, want 2", n)
			}
			r.fill(1)
			c.expect("1\r\n")
			c.expectEOF() // now it is idle
			return nil
		})
	})
}

// A client that does not take what was sent before the wait is idle.
func TestParkedDeafClientIsIdle(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		if p.network != "unix" {
			t.Skip("does not apply: the buffers of TCP grow")
		}
		patiently(t, 50*time.Millisecond, func(timeout time.Duration) error {
			r := start(t, m, p, func(c *server.Config) {
				unpolled(c)
				c.IdleTimeout = timeout
			})
			found := false
			for half := 170_000; half < 300_000; half += 30_000 {
				asked, written, closed := r.well.asked.Load(), r.counters.BytesWritten.Load(), r.counters.IdleClosed.Load()
				c := r.dial()
				if _, err := fmt.Fprintf(c, "split %d\r\n", 2*half); err != nil {
					return err // it was idle before
				}
				r.parkedOrStuck(asked)
				if _, now := r.settled(); r.well.asked.Load() > asked && now-written < uint64(half) {
					found = true
					eventually(t, func() string {
						if r.counters.IdleClosed.Load() == closed {
							return "a deaf client is not idle"
						}
						return ""
					})
				}
				c.Close()
				eventually(t, func() string {
					r.engine.Wake() // the portable engine looks after its clients only then
					return r.open(0)
				})
			}
			if !found && m.name != "net" { // its goroutine sends all before it waits
				t.Error("never parked with output left")
			}
			return nil
		})
	})
}
