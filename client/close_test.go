package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingOutlivesClose: whatever goes on at Close, all callers get ErrClosed, all connections are
// closed, and the bubble has no goroutine of the client's left: synctest would report one.
func TestNothingOutlivesClose(t *testing.T) {
	var server issuer
	for name, serve := range map[string]func(net.Conn){
		"before the greeting": func(c net.Conn) { io.Copy(io.Discard, c) },
		"while nobody reads":  greetOnly,
		"while it is answered": talk(func(r string) []byte {
			time.Sleep(time.Millisecond)
			return server.answer(r)
		}),
		"without an answer": talk(func(string) []byte { return []byte{} }),
		"in back-off":       nil,
		"not ready":         talk(func(string) []byte { return []byte("SERVER_ERROR lease expired\r\n") }),
		"half an answer":    talk(func(string) []byte { return []byte("IDS 7") }),
	} {
		for _, prefetch := range []int{0, 100} {
			t.Run(fmt.Sprint(name, ", prefetch ", prefetch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNetwork()
					n.set("a:1", serve)
					c := n.newClient(t,
						Config{Prefetch: prefetch, Timeout: time.Hour, DialTimeout: time.Hour, MinBackoff: time.Hour,
							MaxBackoff: time.Hour, Connections: 2}, "a:1", "b:1")
					var all sync.WaitGroup
					for i := range 20 {
						all.Go(func() {
							for {
								id, err := c.ID(contextOf(t, i))
								if errors.Is(err, ErrClosed) && id == 0 {
									return
								}
								if err != nil && id != 0 {
									t.Errorf("id %d and error %v", id, err)
								}
								time.Sleep(time.Millisecond)
							}
						})
					}
					time.Sleep(100 * time.Millisecond)
					var closers sync.WaitGroup
					for range 3 {
						closers.Go(func() {
							if err := c.Close(); err != nil {
								t.Error(err)
							}
						})
					}
					closers.Wait()
					all.Wait()
					if id, err := c.ID(t.Context()); id != 0 || !errors.Is(err, ErrClosed) {
						t.Errorf("after Close: id %d, error %v", id, err)
					}
					if ids, err := c.IDs(t.Context(), 5000); ids != nil || !errors.Is(err, ErrClosed) {
						t.Errorf("after Close: %d ids, error %v", len(ids), err)
					}
					if text, err := c.Generator("x").Text(t.Context()); text != "" || !errors.Is(err, ErrClosed) {
						t.Errorf("after Close: %q, error %v", text, err)
					}
					if len(c.conns) != 0 {
						t.Errorf("%d connections", len(c.conns))
					}
					time.Sleep(2 * time.Hour)
					if n.open.Load() != 0 {
						t.Errorf("%d connections are open at the server", n.open.Load())
					}
				})
			})
		}
	}
}

// TestCloseBeforeUse: nothing was opened, nothing is left.
func TestCloseBeforeUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var names nameServer
		for _, r := range []Resolver{Static("a:1"), DNSFrom("ids.example.:1", names.resolver()), &failing{}} {
			c, err := New(r, Config{Dial: n.dial})
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			c.Close()
			if id, err := c.ID(context.Background()); id != 0 || !errors.Is(err, ErrClosed) {
				t.Errorf("id %d, error %v", id, err)
			}
		}
		if n.dialled("a:1") != 0 {
			t.Error("a connection was opened")
		}
	})
}

// TestIdleClientSleeps: without calls nothing happens but DNS's look-ups.
func TestIdleClientSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", server.serve())
		c := n.newClient(t, Config{Prefetch: 100}, "a:1", "b:1")
		for range 1000 {
			must(t)(c.ID(t.Context()))
		}
		time.Sleep(2 * time.Second) // time-outs and back-offs that were under way
		synctest.Wait()
		// With no timer, nothing of the client's runs: the clock goes straight to this test's own.
		if c.wake.Stop() {
			t.Error("the client waits for a back-off")
		}
		for k := range c.conns {
			if k.timer.Stop() {
				t.Error("a connection waits for its time-out")
			}
		}
		before := n.dialled("b:1")
		time.Sleep(time.Hour)
		if n.dialled("b:1") != before {
			t.Error("an idle client dials")
		}
	})
}
