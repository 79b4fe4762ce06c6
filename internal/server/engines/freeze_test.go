package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A staying session cannot move: its connection is held while the engine is frozen.
type staying struct{ *countedSession }

func (staying) Freeze() (state []byte, ok bool) { return nil, false }

// The end may come right behind a thaw, when connections that were held or adopted, and listeners, are about to
// go on: the drain answers what has arrived, of connections in the backlog too, and waits for nothing else.
func TestThawThenDrain(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		for range 4 {
			r := startPorts(t, m, nil, func(r *rig) []server.Port {
				port := r.port(p)
				open := port.Open
				port.Open = func(loop int, _ *latency.Asked) server.Session {
					s := open(loop, nil)
					if r.counters.Total.Load()%2 == 0 {
						return staying{s.(*countedSession)}
					}
					return s
				}
				return []server.Port{port}
			})
			var clients []*client
			for i := range 24 {
				c := r.dial()
				c.say("echo a%d\r\n", i)
				c.expect(fmt.Sprintf("a%d\r\n", i))
				clients = append(clients, c)
			}
			moved := r.freeze()
			if len(moved) == 0 || len(moved) == len(clients) {
				t.Errorf("%d of %d connections moved: some should, and some stay", len(moved), len(clients))
			}
			late := r.dial()
			clients = append(clients, late)
			for i, c := range clients {
				c.say("echo b%d\r\n", i)
			}
			r.thaw(moved)
			r.end()
			for i, c := range clients {
				c.expect(fmt.Sprintf("b%d\r\n", i))
				c.expectEOF()
				c.Close()
			}
			r.stop()
		}
	})
}

// Freeze and the end of Serve may come at once: either Freeze gives everything, or nothing and the
// drain answers what has arrived.
func TestFreezeRacesWithDrain(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		for round := range 6 {
			r, heir := start(t, m, p, nil), start(t, m, p, nil)
			var clients []*client
			for i := range 10 {
				c := r.dial()
				c.say("echo a%d\r\n", i)
				c.expect(fmt.Sprintf("a%d\r\n", i))
				c.say("echo b%d\r\n", i)
				clients = append(clients, c)
			}
			if round%2 == 0 {
				go r.end()
			} else {
				r.end()
			}
			moved, err := r.engine.Freeze(context.Background())
			if err != nil && !errors.Is(err, server.ErrIdle) {
				t.Errorf("Freeze: %v", err)
			}
			if err == nil && len(moved) != len(clients) {
				t.Errorf("%d connections moved, want %d", len(moved), len(clients))
			}
			r.stop()
			heir.adopt(moved)
			for i, c := range clients {
				c.expect(fmt.Sprintf("b%d\r\n", i))
				if err != nil {
					c.expectEOF()
				}
				c.Close()
			}
			heir.stop()
		}
	})
}

// A slowed listener or connection clears no deadline after a thaw until another one was set.
type slowed struct {
	thawed atomic.Bool
	set    chan struct{} // closed when one was set after the thaw
	once   sync.Once
}

func (s *slowed) deadline(t time.Time, set func(time.Time) error) error {
	if t.IsZero() && s.thawed.Load() {
		<-s.set
	}
	err := set(t)
	if !t.IsZero() && s.thawed.Load() {
		s.once.Do(func() { close(s.set) })
	}
	return err
}

type slowListener struct {
	*net.TCPListener
	slowed, conns *slowed
}

func (l slowListener) SetDeadline(t time.Time) error {
	return l.slowed.deadline(t, l.TCPListener.SetDeadline)
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err != nil {
		return nil, err
	}
	return slowConn{c, l.conns}, nil
}

type slowConn struct {
	net.Conn
	slowed *slowed
}

func (c slowConn) SetDeadline(t time.Time) error { return c.slowed.deadline(t, c.Conn.SetDeadline) }
func (c slowConn) SetReadDeadline(t time.Time) error {
	return c.slowed.deadline(t, c.Conn.SetReadDeadline)
}

// TestDrainBeforeTheThawIsThrough: the portable engine's listeners and connections clear the deadlines that Freeze
// has set. If the drain sets its own before they come to that, it still reaches them.
func TestDrainBeforeTheThawIsThrough(t *testing.T) {
	ln, conn := &slowed{set: make(chan struct{})}, &slowed{set: make(chan struct{})}
	r := startPorts(t, netCandidate(), nil, func(r *rig) []server.Port {
		lns := listeners(t, "tcp", 1)
		return []server.Port{r.portOn([]net.Listener{slowListener{lns[0].(*net.TCPListener), ln, conn}})}
	})
	c := r.greeted()
	if moved := r.freeze(); len(moved) != 0 {
		t.Fatalf("%d connections moved, so this test is void", len(moved))
	}
	ln.thawed.Store(true)
	conn.thawed.Store(true)
	r.thaw(nil)
	r.end()
	c.expectEOF()
	c.Close()
	r.stop()
}
