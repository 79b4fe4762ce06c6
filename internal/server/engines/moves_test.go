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
func eachPair(t *testing.T, test func(t *testing.T, from, to candidate, p place)) {
	for i, from := range makers() {
		for j, to := range makers() {
			at := places[(i+j)%len(places)]
			t.Run(fmt.Sprintf("%s/%s/%s/%d", from.name, to.name, at.network, at.loops), func(t *testing.T) {
				test(t, from, to, at)
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
	eachPair(t, func(t *testing.T, from, to candidate, at place) {
		p := pair{start(t, from, at, nil), start(t, to, at, nil)}
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
