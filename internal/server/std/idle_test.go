//go:build unix

package std

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A flood answers with more than a socket takes, after it has waited so many times.
type flood struct{ waits int }

func (f *flood) Feed(_ int64, in, out []byte) (n int, reply []byte, err error) {
	if f.waits--; f.waits >= 0 {
		return 0, out, noAnswerYet{}
	}
	return len(in), append(out, make([]byte, 4<<20)...), nil
}

// TestDeafClientHasOneTimeout: a client that reads nothing is closed one time-out after its socket took the last bytes,
// not after the write that was blocked since then has been woken.
func TestDeafClientHasOneTimeout(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testDeafClient(t, &flood{}) })
	t.Run("parked", func(t *testing.T) { testDeafClient(t, &flood{waits: 3}) })
}

func testDeafClient(t *testing.T, s server.Session) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	served, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	e := New(server.Config{Now: func() int64 { return 0 }, MaxConnections: 1, Counters: new(server.Counters),
		Budget: server.NewBudget(1 << 40)})
	g := &group{Engine: e, conns: map[*conn]struct{}{}}
	g.share = e.Share(func() {}, func() {})
	defer g.share.Leave()
	tick, done := make(chan time.Time), make(chan struct{})
	defer close(done)
	go g.sweepIdle(tick, done)
	g.start(served, &server.Port{Open: func(int, *latency.Asked) server.Session { return s }}, 0)
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !g.blocks(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the socket takes everything")
		}
	}
	for !server.Idle(g.sweep.Load(), 0) { // it took its last bytes before the first
		tick <- time.Time{}
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		g.serving.Wait()
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("the client has another time-out")
	}
	if n := e.Counters.IdleClosed.Load(); n != 1 {
		t.Errorf("%d connections closed for being idle, want 1", n)
	}
}

// blocks reports whether a connection waits for its client to read.
func (g *group) blocks() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sharing.Lock()
	defer g.sharing.Unlock()
	for c := range g.conns {
		if c.blocked {
			return true
		}
	}
	return false
}
