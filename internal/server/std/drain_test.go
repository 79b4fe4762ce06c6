//go:build unix

package std

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
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
