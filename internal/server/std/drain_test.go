//go:build unix

package std

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// late is how many times a goroutine comes to its read or to Accept when the deadline is over: as on a machine that is
// too busy to run it between the two.
const late = 5

type lateListener struct {
	*net.UnixListener
	times int
}

func (l *lateListener) Accept() (net.Conn, error) {
	if l.times++; l.times <= late {
		return nil, os.ErrDeadlineExceeded
	}
	c, err := l.AcceptUnix()
	return &lateConn{UnixConn: c}, err
}

type lateConn struct {
	*net.UnixConn
	times int
}

func (c *lateConn) Read(b []byte) (int, error) {
	if c.times++; c.times <= late {
		return 0, os.ErrDeadlineExceeded
	}
	return c.UnixConn.Read(b)
}

// An echo answers each input with the same bytes.
type echo struct{}

func (echo) Feed(_ int64, in, out []byte) (n int, reply []byte, err error) {
	return len(in), append(out, in...), nil
}

// TestDrainLooksBeforeItEnds: who is in the backlog and has sent something when the drain begins is answered, however
// late the goroutines run. When nothing is left, the drain does not wait for more.
func TestDrainLooksBeforeItEnds(t *testing.T) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("waited")); err != nil {
		t.Fatal(err)
	}
	e := New(server.Config{Now: func() int64 { return 0 }, DrainTimeout: time.Hour, Counters: new(server.Counters)})
	g := &group{Engine: e, conns: map[*conn]struct{}{}}
	g.share = e.Share(func() {}, func() {})
	defer g.share.Leave()
	g.draining.Store(true)
	port := &server.Port{Open: func(int, *latency.Asked) server.Session { return echo{} }}
	if err := g.accept(new(sleeper), &lateListener{UnixListener: ln}, port, 0); err != nil {
		t.Fatal(err)
	}
	g.drain()
	if answer, err := io.ReadAll(client); err != nil || !bytes.Equal(answer, []byte("waited")) {
		t.Errorf("answered %q (%v)", answer, err)
	}
}

// A hurriedConn's next deadlines for reads are over as soon as they are set: as on a machine that is too busy to run
// the reader before.
type hurriedConn struct {
	*net.UnixConn
	times atomic.Int32
	set   chan struct{} // closed at the first one
}

func (c *hurriedConn) SetReadDeadline(at time.Time) error {
	switch n := c.times.Add(1); {
	case at.IsZero() || n > maxLooks:
		return c.UnixConn.SetReadDeadline(at)
	case n == 1:
		defer close(c.set)
	}
	return c.UnixConn.SetReadDeadline(past)
}

type hurriedListener struct {
	*net.UnixListener
	accepted chan *hurriedConn
}

func (l hurriedListener) Accept() (net.Conn, error) {
	c, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	h := &hurriedConn{UnixConn: c, set: make(chan struct{})}
	l.accepted <- h
	return h, nil
}

// A held session waits before it looks at its input, and answers the second input: Freeze does not wait for a
// connection that has sent something meanwhile.
type held struct{ begun, goes chan struct{} }

func (h held) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	h.begun <- struct{}{}
	<-h.goes
	if string(in) == "first" {
		return len(in), out, nil
	}
	return echo{}.Feed(now, in, out)
}

// TestFreezeLooksBeforeItHolds: an encrypted connection answers what has arrived before Freeze, however late its
// goroutine reads it.
func TestFreezeLooksBeforeItHolds(t *testing.T) {
	cert, key, roots := selfsigned.Files(t)
	encrypted, err := server.NewTLS(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *hurriedConn, 1)
	h := held{make(chan struct{}), make(chan struct{})}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	e := New(server.Config{Now: func() int64 { return 0 }, DrainTimeout: time.Hour, Counters: new(server.Counters)})
	go func() {
		served <- e.Serve(ctx, []server.Port{{
			Listeners: []net.Listener{hurriedListener{ln, accepted}}, TLS: encrypted,
			Open: func(int, *latency.Asked) server.Session { return h },
		}})
	}()
	plain, err := net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	client := tls.Client(plain, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	defer client.Close()
	for _, text := range []string{"first", "second"} {
		if _, err := client.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if text == "first" {
			<-h.begun
		}
	}
	frozen := make(chan error)
	go func() {
		_, err := e.Freeze(ctx)
		frozen <- err
	}()
	<-(<-accepted).set
	h.goes <- struct{}{}
	for waiting := true; waiting; {
		select {
		case <-h.begun:
			h.goes <- struct{}{}
		case err := <-frozen:
			if err != nil {
				t.Error(err)
			}
			waiting = false
		}
	}
	end()
	if answer, err := io.ReadAll(client); err != nil || !bytes.Equal(answer, []byte("second")) {
		t.Errorf("answered %q (%v)", answer, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A parked session says when it is asked, and never has its answer.
type parked struct{ asked chan struct{} }

func (p parked) Feed(_ int64, _, out []byte) (n int, reply []byte, err error) {
	select {
	case p.asked <- struct{}{}:
	default:
	}
	return 0, out, noAnswerYet{}
}

type noAnswerYet struct{}

func (noAnswerYet) Error() string { return "no answer yet" }
func (noAnswerYet) Wait() bool    { return true }

// TestDrainForcesWhomItCannotSee: when DrainTimeout is over, a session that waits ends, also where nothing tells that
// its connection is closed.
func TestDrainForcesWhomItCannotSee(t *testing.T) {
	client, unseen := net.Pipe()
	defer client.Close()
	e := New(server.Config{
		Now: func() int64 { return 0 }, DrainTimeout: time.Nanosecond, Counters: new(server.Counters),
	})
	g := &group{Engine: e, conns: map[*conn]struct{}{}}
	g.share = e.Share(func() {}, func() {})
	defer g.share.Leave()
	p := parked{make(chan struct{})}
	g.start(unseen, &server.Port{Open: func(int, *latency.Asked) server.Session { return p }}, 0)
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-p.asked
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		g.drain()
	}()
	select {
	case <-drained:
	case <-time.After(time.Minute):
		t.Fatal("the drain never ends")
	}
}
