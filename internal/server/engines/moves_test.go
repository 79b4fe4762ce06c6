package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A pair is two engines between which connections move: clients connect to the first.
type pair struct{ from, to *rig }

// eachPair runs a test on all pairs of engines of this system.
func eachPair(t *testing.T, places []place, test func(t *testing.T, p pair)) {
	for i, from := range makers() {
		for j, to := range makers() {
			at := places[(i+j)%len(places)]
			t.Run(fmt.Sprintf("%s/%s/%s/%d", from.name, to.name, at.network, at.loops), func(t *testing.T) {
				// What has sent its last reply must not go while a test looks on.
				linger := func(c *server.Config) { c.Linger = time.Hour }
				test(t, pair{start(t, from, at, linger), start(t, to, at, linger)})
			})
		}
	}
}

// freeze freezes an engine and checks that it is still.
func (r *rig) freeze() []server.Moved {
	r.t.Helper()
	moved, err := r.engine.Freeze(context.Background())
	if err != nil {
		r.t.Fatalf("freeze: %v", err)
	}
	if begun, ended := r.feeds.begun.Load(), r.feeds.ended.Load(); begun != ended {
		r.t.Fatalf("%d feeds run in a frozen engine", begun-ended)
	}
	return moved
}

func (r *rig) thaw(moved []server.Moved) {
	r.t.Helper()
	if err := r.engine.Thaw(moved); err != nil {
		r.t.Fatalf("thaw: %v", err)
	}
}

func (r *rig) adopt(moved []server.Moved) {
	r.t.Helper()
	for _, m := range moved {
		eventually(r.t, func() string { // Serve may not have begun
			err := r.engine.Adopt(m)
			if errors.Is(err, server.ErrIdle) {
				return err.Error()
			}
			if err != nil {
				r.t.Fatalf("adopt: %v", err)
			}
			return ""
		})
	}
}

// there moves all connections to the second engine.
func (p pair) there() (n int) {
	p.from.t.Helper()
	moved := p.from.freeze()
	p.to.adopt(moved)
	return len(moved)
}

// back moves them back.
func (p pair) back() (n int) {
	p.to.t.Helper()
	moved := p.to.freeze()
	p.from.thaw(moved)
	p.to.thaw(nil)
	return len(moved)
}

// Whatever a connection is in the middle of, it goes on where it moves to: no byte is lost, none comes
// twice, and the replies come in order.
func TestConnectionsMove(t *testing.T) {
	eachPair(t, places, func(t *testing.T, p pair) {
		const bigger = 10_000_000 // than what sockets take
		r := p.from
		idle, partial, long, skips, slow, parked, paused, half, ended := r.dial(), r.dial(), r.dial(), r.dial(), r.dial(),
			r.dial(), r.dial(), r.dial(), r.dial()
		ended.say("close\r\n")
		ended.expect("bye\r\n")
		ended.expectEOF()
		partial.say("echo 1\r\necho unfin")
		partial.expect("1\r\n")
		line := strings.Repeat("0123456789", 30_000)
		long.say("echo 1\r\necho %s", line)
		long.expect("1\r\n")
		skips.say("echo 1\r\nskip 20\r\necho no\r\n")
		skips.expect("1\r\n")
		slow.say("big %d\r\necho after\r\n", bigger)
		asked := r.well.asked.Load()
		parked.say("echo 1\r\ntake 2\r\necho 3\r\nech")
		parked.expect("1\r\n")
		half.say("take 2\r\necho 3\r\n")
		half.closeWrite()
		paused.say("split 20000\r\necho after\r\n")
		r.parked(asked, 3)
		r.writes(20_000)

		n := p.there()
		if n != 8 {
			t.Errorf("%d connections moved, want 8", n)
		}
		eventually(t, func() string { return r.open(1) }) // the one that is at its end
		if n, total := p.to.counters.Current.Load(), p.to.counters.Total.Load(); n != 8 || total != 0 {
			t.Errorf("%d connections counted as open and %d as accepted, want 8 and 0", n, total)
		}
		idle.echo("idle")
		partial.say("ished\r\n")
		partial.expect("unfinished\r\n")
		long.say("ished\r\n")
		long.expect(line + "ished\r\n")
		skips.say("12345678901echo end\r\n")
		skips.expect("end\r\n")
		p.to.fill(3)
		parked.say("o 4\r\n")
		parked.expect("2\r\n3\r\n4\r\n")
		half.expect("2\r\n3\r\n")
		half.expectEOF()
		paused.expectBig(20000)
		paused.expect("after\r\n")
		slow.expectBig(bigger)
		slow.expect("after\r\n")
	})
}

// pipeline asks for numbers until stop says so, several at a time, and checks that each is answered
// once and in order. It returns how many were answered.
func pipeline(c *client, stop func() bool) (n int, err error) {
	for !stop() {
		c.SetDeadline(time.Now().Add(2 * patience))
		var in, want strings.Builder
		for range 1 + n%37 {
			fmt.Fprintf(&in, "echo %d%s\r\n", n, strings.Repeat("x", n%301))
			fmt.Fprintf(&want, "%d%s\r\n", n, strings.Repeat("x", n%301))
			n++
		}
		if n%11 == 0 {
			in.WriteString("big 70000\r\n")
		}
		if _, err := io.WriteString(c, in.String()); err != nil {
			return n, err
		}
		got := make([]byte, want.Len())
		if k, err := io.ReadFull(c.r, got); err != nil || string(got) != want.String() {
			return n, fmt.Errorf("got %.200q (%w), want %.200q", got[:k], err, want.String())
		}
		if n%11 == 0 {
			c.expectBig(70000)
		}
	}
	return n, nil
}

// Clients that ask all the time notice nothing of many moves there and back.
func TestPipelinesMove(t *testing.T) {
	rounds := 2
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		rounds = 1000
	}
	eachPair(t, places, func(t *testing.T, p pair) {
		var working sync.WaitGroup
		var stop atomic.Bool
		const clients = 16
		progress := make([]atomic.Int64, clients)
		for i := range clients {
			c := p.from.dial()
			working.Go(func() {
				_, err := pipeline(c, func() bool {
					progress[i].Add(1)
					return stop.Load()
				})
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				c.Close()
			})
		}
		worked := func() { // some of them have gone on
			before := make([]int64, clients)
			for i := range before {
				before[i] = progress[i].Load()
			}
			eventually(t, func() string {
				for i := range before {
					if progress[i].Load() > before[i]+1 || t.Failed() {
						return ""
					}
				}
				return "no client gets on"
			})
		}
		worked()
		for range rounds {
			p.there()
			worked()
			p.back()
			if t.Failed() {
				break
			}
			worked()
		}
		stop.Store(true)
		working.Wait()
	})
}

// Nothing is lost when moves follow each other at once.
func TestMovesInQuickSuccession(t *testing.T) {
	eachPair(t, places, func(t *testing.T, p pair) {
		var clients []*client
		for i := range 20 {
			c := p.from.dial()
			c.say("echo %d\r\nech", i)
			c.expect(fmt.Sprintf("%d\r\n", i))
			clients = append(clients, c)
		}
		for round := range 10 {
			if there, back := p.there(), p.back(); there != len(clients) || back != len(clients) {
				t.Fatalf("round %d: %d connections moved there and %d back, want %d", round, there, back, len(clients))
			}
		}
		for i, c := range clients {
			c.say("o %d\r\n", i)
			c.expect(fmt.Sprintf("%d\r\n", i))
			c.Close()
		}
	})
}

// A successor with the same listeners takes everything over: no client is lost that connects meanwhile,
// and the file of a unix socket stays.
func TestSuccessorTakesOver(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		var spare []net.Listener
		r := startPorts(t, m, nil, func(r *rig) []server.Port {
			port := r.port(p)
			spare = duplicates(t, port.Listeners)
			return []server.Port{port}
		})
		network, address := r.network, r.address
		var stop atomic.Bool
		var answered atomic.Int64
		var storm sync.WaitGroup
		for i := range 8 {
			storm.Go(func() {
				for n := 0; !stop.Load(); n++ {
					c, err := net.Dial(network, address)
					if err != nil {
						t.Errorf("client %d, connection %d: %v", i, n, err)
						return
					}
					c.SetDeadline(time.Now().Add(patience))
					fmt.Fprintf(c, "echo %d\r\n", n)
					got := make([]byte, len(fmt.Sprintf("%d\r\n", n)))
					if _, err := io.ReadFull(c, got); err != nil || string(got) != fmt.Sprintf("%d\r\n", n) {
						t.Errorf("client %d, connection %d: %q, %v", i, n, got, err)
						return
					}
					(&client{Conn: c}).abort()
					answered.Add(1)
				}
			})
		}
		more := func() {
			t.Helper()
			before := answered.Load()
			eventually(t, func() string {
				if t.Failed() {
					return ""
				}
				return r.atLeast("answered", uint64(answered.Load()), uint64(before+20))
			})
		}
		for range 4 {
			more()
			moved := r.freeze()
			next := startPorts(t, m, nil, func(r *rig) []server.Port {
				port := r.portOn(spare)
				spare = duplicates(t, spare)
				return []server.Port{port}
			})
			next.adopt(moved)
			r.stop() // frozen, with what stayed
			if _, err := os.Lstat(r.address); r.network == "unix" && err != nil {
				t.Fatal("the socket's file is gone")
			}
			r = next
		}
		more()
		r.thaw(r.freeze())
		more()
		stop.Store(true)
		storm.Wait()
		server.Close([]server.Port{{Listeners: spare}})
	})
}

// duplicates returns listeners with descriptors of their own.
func duplicates(t *testing.T, lns []net.Listener) (all []net.Listener) {
	t.Helper()
	for _, ln := range lns {
		f, err := ln.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.FileListener(f)
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		if u, ok := ln.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
		all = append(all, ln)
	}
	return all
}

// What cannot be adopted stays the caller's. What can is adopted over the limit, too.
func TestAdoptChecks(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		from := start(t, m, p, nil)
		to := start(t, m, p, func(c *server.Config) { c.MaxConnections = 2 })
		var clients []*client
		for range 5 {
			c := from.dial()
			c.say("echo 1\r\nech")
			c.expect("1\r\n")
			clients = append(clients, c)
		}
		moved := from.freeze()
		for name, change := range map[string]func(*server.Moved){
			"port":       func(m *server.Moved) { m.Port = "no" },
			"state":      func(m *server.Moved) { m.State = []byte("nonsense") },
			"descriptor": func(m *server.Moved) { m.FD = 1 << 20 },
		} {
			wrong := moved[0]
			if change(&wrong); to.engine.Adopt(wrong) == nil {
				t.Errorf("a wrong %s was adopted", name)
			}
		}
		to.adopt(moved)
		for _, c := range clients {
			c.say("o 2\r\n")
			c.expect("2\r\n")
		}
		if n := to.counters.Current.Load(); n != 5 || to.counters.Refused.Load() != 0 {
			t.Errorf("%d open and %d refused, want 5 and 0", n, to.counters.Refused.Load())
		}
		late := to.dial()
		late.expect("too many\r\n")
		late.expectEOF()
	})
}

// Encrypted connections do not move. They are held, whatever they are in the middle of, and go on when
// the engine thaws; when it ends frozen, they are closed.
func TestEncryptedConnectionsStay(t *testing.T) {
	roots, enc := newTLS(t)
	const bigger = 10_000_000
	for _, m := range makers() {
		t.Run(m.name, func(t *testing.T) {
			both := candidate{m.name, func(c server.Config) server.Engine { return newBeside(m.make(c), c) }, nil}
			r := startPorts(t, both, nil, func(r *rig) []server.Port {
				return []server.Port{r.portTLS(enc, 1), r.port(place{"tcp", 1})}
			})
			secret, slow, plain := r.dialTLSOr(t, roots, 0), r.dialTLSOr(t, roots, 0), r.dialPort(1)
			r.dial() // and is silent
			for range 3 {
				secret.say("echo 1\r\nech")
				secret.expect("1\r\n")
				plain.say("echo 1\r\nech")
				plain.expect("1\r\n")
				before := r.counters.BytesWritten.Load()
				slow.say("big %d\r\necho after\r\n", bigger)
				r.writes(before + 100_000)
				moved := r.freeze()
				if len(moved) != 1 {
					t.Errorf("%d connections moved, want the plain one", len(moved))
				}
				fed := r.feeds.begun.Load()
				secret.say("o 2\r\n")
				plain.say("o 2\r\n")
				slow.expectPart(bigger, 90_000)
				if n := r.feeds.begun.Load(); n != fed {
					t.Errorf("a frozen engine asked sessions %d times", n-fed)
				}
				r.thaw(moved)
				secret.expect("2\r\n")
				plain.expect("2\r\n")
				slow.expectPart(bigger-90_000, bigger-90_000)
				slow.expect("after\r\n")
			}
			moved := r.freeze()
			fed := r.feeds.begun.Load()
			secret.say("echo too late\r\n")
			r.end()
			if err := r.wait(); err != nil {
				t.Error(err)
			}
			if n := r.feeds.begun.Load(); n != fed {
				t.Errorf("sessions were asked %d times after Freeze", n-fed)
			}
			heir := startPorts(t, m, nil, func(r *rig) []server.Port { return []server.Port{r.port(place{"tcp", 1})} })
			heir.adopt(moved)
			plain.echo(3)
		})
	}
}
