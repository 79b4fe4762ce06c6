package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A frozen engine does nothing, whatever comes; thawed, it goes on as if nothing had happened. Freeze
// waits for a session that is being asked.
func TestThaw(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		other := start(t, m, place{"tcp", 1}, nil) // shows that time goes by
		witness := other.dial()
		witness.echo(1)
		r := start(t, m, p, nil)
		for i := range 5 {
			c, parked, busy := r.dial(), r.dial(), r.dial()
			c.say("echo 1\r\nech")
			c.expect("1\r\n")
			parked.say("take 2\r\n")
			asked := r.well.asked.Load()
			r.parked(asked, 1)
			busy.say("hold\r\necho held\r\n")
			<-r.held
			frozen := make(chan []server.Moved)
			go func() { frozen <- r.freeze() }()
			for range 20 {
				witness.echo(i)
			}
			select {
			case <-frozen:
				t.Fatal("frozen while a session is being asked")
			default:
			}
			<-r.freed
			moved := <-frozen
			if len(moved) != 3 {
				t.Errorf("%d connections moved, want 3", len(moved))
			}
			if n := r.counters.Current.Load(); n != 0 {
				t.Errorf("%d connections counted as open, want 0", n)
			}
			fed, accepted := r.feeds.begun.Load(), r.counters.Total.Load()
			c.say("o 2\r\n")
			late := r.dial() // stays in the backlog
			late.say("echo late\r\n")
			r.engine.Wake()
			for range 20 {
				witness.echo(i)
			}
			if n := r.feeds.begun.Load(); n != fed {
				t.Errorf("a frozen engine asked sessions %d times", n-fed)
			}
			if n := r.counters.Total.Load(); n != accepted {
				t.Errorf("a frozen engine accepted %d connections: a successor would not get them", n-accepted)
			}
			if _, err := r.engine.Freeze(context.Background()); !errors.Is(err, server.ErrFrozen) {
				t.Errorf("frozen twice: %v", err)
			}
			if err := r.engine.Adopt(moved[0]); !errors.Is(err, server.ErrFrozen) {
				t.Errorf("adopted while frozen: %v", err)
			}
			r.thaw(moved)
			if err := r.engine.Thaw(nil); !errors.Is(err, server.ErrThawed) {
				t.Errorf("thawed twice: %v", err)
			}
			late.expect("late\r\n")
			c.expect("2\r\n")
			busy.expect("held\r\n")
			r.fill(1)
			parked.expect("2\r\n")
			for _, c := range []*client{c, parked, busy, late} {
				c.Close()
			}
			eventually(t, func() string { return r.open(0) })
		}
	})
}

// If the caller does not wait for the end of Freeze, the engine goes on.
func TestFreezeGivesUp(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		var clients []*client
		for range 10 {
			c := r.dial()
			c.say("echo 1\r\nec")
			c.expect("1\r\n")
			clients = append(clients, c)
		}
		for range 3 {
			b := r.newBrake(p.loops)
			b.stop() // or Freeze might have everything before it looks at ctx
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error)
			go func() {
				_, err := r.engine.Freeze(ctx)
				ended <- err
			}()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Freeze returned %v", err)
			}
			b.release()
			for _, c := range clients {
				c.say("ho 2\r\nec")
				c.expect("2\r\n")
			}
			c := r.greeted()
			c.Close()
			b.close()
			r.thaw(r.freeze()) // nothing of the attempt is left
		}
		for _, c := range clients {
			c.say("ho 3\r\n")
			c.expect("3\r\n")
			c.Close()
		}
	})
}

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

// When a frozen engine is told to end, it asks no session again. It refuses to thaw, and the
// connections that it gave away are not its business.
func TestFrozenEngineEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		c := r.greeted()
		moved := r.freeze()
		fed := r.feeds.begun.Load()
		late := r.dial()
		late.say("echo late\r\n")
		c.say("echo 2\r\n")
		r.end()
		r.stop()
		if n := r.feeds.begun.Load(); n != fed {
			t.Errorf("sessions were asked %d times after Freeze", n-fed)
		}
		for name, err := range map[string]error{"Thaw": r.engine.Thaw(moved), "Adopt": r.engine.Adopt(moved[0])} {
			if !errors.Is(err, server.ErrIdle) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.engine.Freeze(context.Background()); !errors.Is(err, server.ErrIdle) {
			t.Errorf("Freeze: %v", err)
		}
		if p.network == "unix" {
			if _, err := os.Lstat(r.address); err != nil {
				t.Error("a frozen engine removed the socket's file")
			}
		}
		heir := start(t, m, p, nil)
		heir.adopt(moved)
		c.expect("2\r\n")
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
