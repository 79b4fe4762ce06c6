package engines

import (
	"crypto/tls"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A client that goes away while it waits is released, though nobody is ever answered. (After a close
// over TCP, it looks like one that has only ended its input.)
func TestWaitingClientGoes(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		b := r.newBrake(p.loops)
		ways := map[string]func(c *client){
			"while parked": func(c *client) {
				c.say("echo 1\r\ntake 1\r\n")
				c.expect("1\r\n")
				r.parked(r.well.asked.Load(), 3)
				c.abort()
			},
			"with its question": func(c *client) {
				b.stop()
				c.say("take 1\r\n")
				c.abort()
				b.release()
			},
			"after it has ended its input": func(c *client) {
				c.say("take 1\r\n")
				r.parked(r.well.asked.Load(), 1)
				c.closeWrite()
				r.parked(r.well.asked.Load(), 5)
				c.abort()
			},
			"with more input": func(c *client) {
				c.say("take 1\r\n")
				r.parked(r.well.asked.Load(), 1)
				c.say("echo 1\r\n")
				r.parked(r.well.asked.Load(), 3)
				c.abort()
			},
		}
		for way, leave := range ways {
			t.Log(way)
			c := r.dial()
			eventually(t, func() string { return r.open(int64(1 + p.loops)) })
			leave(c)
			eventually(t, func() string { return r.open(int64(p.loops)) })
		}
	})
}

// Event loops notice it even without asking the session again.
func TestWaitingClientGoesUnasked(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		if m.name == "net" {
			t.Skip("does not apply: it looks only when it asks the session")
		}
		r := start(t, m, p, unpolled)
		c := r.dial()
		c.say("echo 1\r\ntake 1\r\n")
		c.expect("1\r\n")
		r.parked(0, 1)
		c.abort()
		eventually(t, func() string { return r.open(0) })
	})
}

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

// A client whose waiting input is the most when the budget is used up is told so.
func TestParkedHolderIsClosed(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const limit = 300_000
		r := start(t, m, p, func(c *server.Config) {
			limited(limit)(c)
			unpolled(c)
			c.Linger = time.Hour
		})
		small, big := r.dial(), r.dial()
		small.say("echo 1\r\ntake 1\r\n")
		small.expect("1\r\n")
		asked := r.well.asked.Load()
		big.say("take %s\r\n", strings.Repeat("x", 100_000))
		r.parked(asked, 1)
		holders := int64(0)
		for ; r.budget.Closed() == 0; holders++ {
			// The next holds less, until both together are too much.
			c := r.dial()
			c.hold(r, 10_000)
		}
		big.say("%s", strings.Repeat("x", 1<<20)) // it may still send; nobody keeps that
		big.expect("out of memory\r\n")
		big.expectEOF()
		big.Close()
		eventually(t, func() string { return r.open(holders + 1) }) // it lingers no longer
		r.fill(1)
		small.expect("1\r\n")
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

// At the end a client that waits gets its answer, if that comes in time.
func TestDrainWhileParked(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		for _, change := range []func(*server.Config){unpolled, nil} {
			r := start(t, m, p, change)
			b := r.newBrake(p.loops)
			asked := r.well.asked.Load()
			parked, fresh, half := r.dial(), r.dial(), r.dial()
			parked.say("take 1\r\necho 2\r\n")
			half.say("take 1\r\n")
			half.closeWrite()
			r.parked(asked, 2)
			fresh.echo(0)
			b.stop()
			parked.say("echo 3\r\n") // while it is parked
			fresh.say("take 1\r\necho 2\r\n")
			r.end()
			b.release()
			for _, c := range b.held { // idle, so they are closed
				c.expectEOF()
			}
			b.close()
			eventually(t, func() string { return r.open(3) })
			r.fill(3)
			parked.expect("1\r\n2\r\n3\r\n")
			fresh.expect("1\r\n2\r\n")
			half.expect("1\r\n")
			for _, c := range []*client{parked, fresh, half} {
				c.expectEOF()
				c.Close()
			}
			r.stop()
		}
	})
}

// A Wake reaches the encrypted ports beside the engine, too.
func TestParkedBeside(t *testing.T) {
	roots, enc := newTLS(t)
	for _, m := range makers() {
		t.Run(m.name, func(t *testing.T) {
			both := candidate{m.name, func(c server.Config) server.Engine { return newBeside(m.make(c), c) }, nil}
			for _, change := range []func(*server.Config){unpolled, nil} {
				r := startPorts(t, both, change, func(r *rig) []server.Port {
					secret := r.port(place{"tcp", 1})
					secret.TLS = enc
					return []server.Port{secret, r.port(place{"tcp", 1})}
				})
				r.engine.Wake()
				clients := []*client{r.dialTLSOr(t, roots, 0), r.dialTLSOr(t, roots, 1)}
				for i, c := range clients {
					c.say("echo %d\r\ntake %d\r\n", i, i)
					c.expect(fmt.Sprintf("%d\r\n", i))
				}
				r.parked(0, len(clients))
				r.fill(len(clients))
				for i, c := range clients {
					c.expect(fmt.Sprintf("%d\r\n", i))
				}
				for i, c := range clients {
					if change == nil { // and goes while it waits
						c.say("take 1\r\n")
						r.parked(r.well.asked.Load(), 2)
						if secret, ok := c.Conn.(*tls.Conn); ok {
							secret.NetConn().(*net.TCPConn).SetLinger(0)
							secret.NetConn().Close()
						} else {
							c.abort()
						}
						eventually(t, func() string { return r.open(int64(len(clients) - 1 - i)) })
					}
					c.Close()
				}
				r.stop()
			}
		})
	}
}
