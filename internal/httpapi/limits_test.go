package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network, so that time can be fake.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestSlowClientsAreHungUpOn: exactly when their time is over.
func TestSlowClientsAreHungUpOn(t *testing.T) {
	for _, c := range []struct {
		name, sends, answer string
		after               time.Duration
	}{
		{"says nothing", "", "", 5 * time.Second},
		{"does not finish a header", "GET /healthz HTTP/1.1\r\nHost: x", "", 5 * time.Second},
		{"does not finish a body", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx", "HTTP/1.1 200 OK", 10 * time.Second},
		{"asks nothing more", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK", 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := new(fixture)
			s := NewServer(f.config())
			l := pipes{make(chan net.Conn)}
			go s.Serve(l)
			client, conn := net.Pipe()
			l.conns <- conn
			began := time.Now()
			client.SetDeadline(began.Add(time.Hour))
			if synctest.Wait(); f.counts.Connections.Load() != 1 {
				t.Errorf("%d connections are counted", f.counts.Connections.Load())
			}
			go io.WriteString(client, c.sends)
			b, err := io.ReadAll(client)
			if took := time.Since(began); took != c.after || err != nil || !strings.HasPrefix(string(b), c.answer) || c.answer == "" && len(b) > 0 {
				t.Errorf("who %s: %q, %v after %v, want %v", c.name, b, err, took, c.after)
			}
			client.Close()
			close(l.conns)
			s.Close()
			synctest.Wait()
			if n := f.counts.Connections.Load(); n != 0 {
				t.Errorf("who %s: %d connections are counted", c.name, n)
			}
		})
	}
}

// A server that listens.
type listening struct {
	*fixture
	t     *testing.T
	addr  string
	conns *connections
}

func (f *fixture) listen(t *testing.T, maxConnections int) listening {
	t.Helper()
	c := f.config()
	c.MaxConnections = maxConnections
	s, conns := NewServer(c), newConnections(c)
	s.ConnState = conns.changed // as it is, but that the test can look
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return listening{f, t, ln.Addr().String(), conns}
}

// A client is one connection.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (l listening) dial() client {
	l.t.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	l.t.Cleanup(func() { c.Close() })
	return client{c, bufio.NewReader(c)}
}

// ask returns the status of the answer, or 0 when the connection was closed.
func (c client) ask(path string, headers ...string) int {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, strings.Join(headers, ""))
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestHeadersAreBounded(t *testing.T) {
	l := new(fixture).listen(t, 0)
	for size, want := range map[int]int{6 << 10: 200, 13 << 10: 431} {
		if got := l.dial().ask("/healthz", "X: "+strings.Repeat("x", size)+"\r\n"); got != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, got, want)
		}
	}
}

// closed says whether the server has closed a connection, or will do so.
func (c client) closed() bool {
	_, err := c.r.ReadByte()
	return err != nil
}

func TestSilentConnectionsMakeRoom(t *testing.T) {
	l := new(fixture).listen(t, 4)
	var silent []client
	for range 10 {
		silent = append(silent, l.dial())
	}
	if got := l.dial().ask("/healthz"); got != 200 {
		t.Errorf("a newcomer: %d", got)
	}
	for i, c := range silent[:7] { // the newcomer has one place, the last three of these the others
		if !c.closed() {
			t.Errorf("silent connection %d is open", i)
		}
	}
	for i, c := range silent[7:] {
		if got := c.ask("/healthz"); got != 200 {
			t.Errorf("silent connection %d: %d", 7+i, got)
		}
	}
	if n, refused := l.counts.Connections.Load(), l.counts.ConnectionsRefused.Load(); n != 4 || refused != 0 {
		t.Errorf("%d connections are counted, %d refused", n, refused)
	}
}

// An idle connection goes before one that has yet to say something, the longest idle first.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	l := new(fixture).listen(t, 4)
	a, b, c := l.dial(), l.dial(), l.dial()
	for i, conn := range []client{a, b, c, a} {
		if got := conn.ask("/healthz"); got != 200 {
			t.Fatalf("request %d: %d", i, got)
		}
		eventually(t, func() bool { // the last to have become idle
			l.conns.mu.Lock()
			defer l.conns.mu.Unlock()
			last := l.conns.idle.Back()
			return last != nil && last.Value.(net.Conn).RemoteAddr().String() == conn.LocalAddr().String()
		})
	}
	mute := l.dial()
	for i, victim := range []client{b, c} {
		if got := l.dial().ask("/healthz"); got != 200 {
			t.Fatalf("newcomer %d: %d", i, got)
		}
		if !victim.closed() {
			t.Errorf("newcomer %d has not got the place of the one that was idle for longest", i)
		}
	}
	for name, conn := range map[string]client{"one that asked again": a, "one that has yet to ask": mute} {
		if got := conn.ask("/healthz"); got != 200 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestConnectionsAtWorkAreLeftAlone(t *testing.T) {
	f := &fixture{work: make(chan struct{})}
	l := f.listen(t, 4)
	answers := make(chan int)
	for range 4 {
		c := l.dial()
		go func() { answers <- c.ask("/id") }()
	}
	eventually(t, func() bool { return l.counts.Requests.Load() == 4 })
	c := l.dial()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !c.closed() {
		t.Errorf("a fifth: %v %v", resp, err)
	}
	if n, refused := l.counts.Connections.Load(), l.counts.ConnectionsRefused.Load(); n != 4 || refused != 1 {
		t.Errorf("%d connections are counted, %d refused", n, refused)
	}
	close(f.work)
	for range 4 {
		if got := <-answers; got != 200 {
			t.Errorf("one at work: %d", got)
		}
	}
	if got := l.dial().ask("/id"); got != 200 {
		t.Errorf("after the work: %d", got)
	}
}

// eventually waits for a condition; the deadline is only for a test that fails.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in a minute")
		}
	}
}
