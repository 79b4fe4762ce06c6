package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/events"
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
func (p pipes) Close() error {
	close(p.conns)
	return nil
}
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) dial() (net.Conn, error) {
	client, conn := net.Pipe()
	p.conns <- conn
	return client, nil
}

// newPipes makes one whose queue has room for all.
func newPipes() pipes { return pipes{make(chan net.Conn, 4096)} }

// A server that listens.
type listening struct {
	*fixture
	Server
	t    *testing.T
	dial func() client
}

// listen listens on loopback.
func (f *fixture) listen(t *testing.T, maxConnections int) listening {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return f.listenOn(t, maxConnections, ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
}

// listenInBubble listens where time is fake.
func (f *fixture) listenInBubble(t *testing.T, maxConnections int) listening {
	t.Helper()
	p := newPipes()
	return f.listenOn(t, maxConnections, p, p.dial)
}

func (f *fixture) listenOn(t *testing.T, maxConnections int, ln net.Listener, dial func() (net.Conn, error)) listening {
	c := f.config()
	c.MaxConnections = maxConnections
	return f.serveOn(t, NewServer(c), ln, dial)
}

func (f *fixture) serveOn(t *testing.T, s Server, ln net.Listener, dial func() (net.Conn, error)) listening {
	go s.Serve(s.Listener(ln))
	t.Cleanup(func() { s.Close() })
	return listening{f, s, t, func() client {
		c, err := dial()
		if err != nil {
			t.Error(err)
			return client{}
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { c.Close() })
		return client{c, bufio.NewReader(c)}
	}}
}

// A client is one connection.
type client struct {
	net.Conn
	r *bufio.Reader
}

// ask returns the status of the answer, or 0 when the connection was closed.
func (c client) ask(path string, headers ...string) int {
	status, _ := c.askOn(path, headers...)
	return status
}

// askOn also says whether the connection goes on.
func (c client) askOn(path string, headers ...string) (status int, goesOn bool) {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, strings.Join(headers, ""))
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, false
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, !resp.Close
}

func TestHeadersAndBodiesAreBounded(t *testing.T) {
	l := new(fixture).listen(t, 0)
	debug := NewDebugServer(true, false, new(events.Log), nil).Handler
	const most = 1 << 20 // for pprof
	for size, want := range map[int][2]int{
		1: {200, 200}, maxBody: {200, 200}, maxBody + 1: {413, 200}, most: {413, 200}, most + 1: {413, 413},
	} {
		for i, r := range []*http.Request{
			httptest.NewRequest("GET", "/id", strings.NewReader(strings.Repeat("+", size))),
			httptest.NewRequest("POST", "/debug/pprof/symbol", strings.NewReader(strings.Repeat("+", size))),
		} {
			w := httptest.NewRecorder()
			[]http.Handler{l.Handler, debug}[i].ServeHTTP(w, r)
			if w.Code != want[i] {
				t.Errorf("a body of %d bytes for %s: %d, want %d", size, r.URL, w.Code, want[i])
			}
		}
	}
	for size, want := range map[int]int{6 << 10: 200, 13 << 10: 431} {
		if got := l.dial().ask("/healthz", "X: "+strings.Repeat("x", size)+"\r\n"); got != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, got, want)
		}
	}
}

// TestBusyClientsAtTheLimit: each gets an answer to whatever it asks, in time that is fake: nobody
// waits for another's silence.
func TestBusyClientsAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		path    string
		clients int
		refused bool // some answers are 503
	}{{"/healthz", 64, false}, {"/healthz", 200, false}, {"/readyz", 64, false}, {"/id", 32, false}, {"/id", 100, true},
		{"/metrics", 100, true}} {
		some := false // are refused
		test := func(t *testing.T) {
			l := new(fixture).listenInBubble(t, 32)
			began := time.Now()
			var answers sync.Map // status -> *atomic.Int64
			ask := func(path string, n int) {
				var conn client
				for goesOn := false; n > 0; n-- {
					if !goesOn {
						conn = l.dial()
					}
					var status int
					status, goesOn = conn.askOn(path)
					count, _ := answers.LoadOrStore(fmt.Sprint(path, " ", status), new(atomic.Int64))
					count.(*atomic.Int64).Add(1)
				}
				conn.Close()
			}
			var clients sync.WaitGroup
			for range c.clients {
				clients.Go(func() { ask(c.path, 20) })
			}
			probed := int64(0)
			if c.clients > 32 {
				probed = 50
			}
			clients.Go(func() { // a probe among them, with a connection for each question
				for range probed {
					ask("/healthz", 1)
				}
			})
			clients.Wait()
			got := map[any]int64{}
			answers.Range(func(k, v any) bool {
				got[k] = v.(*atomic.Int64).Load()
				return true
			})
			ok, refused := got[c.path+" 200"], got[c.path+" 503"]
			probes := got["/healthz 200"]
			if c.path == "/healthz" {
				ok -= probed
			}
			if ok+refused != int64(20*c.clients) || probes < probed || refused > 0 && !c.refused || ok < 20 {
				t.Errorf("%d clients that ask for %s: %v", c.clients, c.path, got)
			}
			if n := l.counts.ConnectionsRefused.Load(); n != uint64(refused) || l.counts.ConnectionsEvicted.Load() != 0 {
				t.Errorf("%d refused, %d evicted; want %d, 0", n, l.counts.ConnectionsEvicted.Load(), refused)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%d clients that ask for %s: somebody waited %v", c.clients, c.path, took)
			}
			some = refused > 0
		}
		for tries := 0; tries == 0 || c.refused && !some; tries++ { // they may come one after another
			if synctest.Test(t, test); tries == 20 {
				t.Fatalf("%d clients that ask for %s: nobody is ever refused", c.clients, c.path)
			}
		}
	}
}

// closed says whether the server has closed a connection, or will do so.
func (c client) closed() bool {
	_, err := c.r.ReadByte()
	return err != nil
}

// from is a connection that comes from an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }

// TestConnectionsAtWorkAreLeftAlone: and health is answered beside them, to some connections more.
func TestConnectionsAtWorkAreLeftAlone(t *testing.T) {
	f := &fixture{work: make(chan struct{})}
	l := f.listen(t, 4)
	answers := make(chan int)
	for range 4 {
		c := l.dial()
		go func() { answers <- c.ask("/id") }()
	}
	eventually(t, func() bool { return l.counts.Requests.Load() == 4 })
	for path, want := range map[string]int{"/healthz": 200, "/id": 503, "/ids": 503, "/stats": 503, "/metrics": 503} {
		c := l.dial()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || resp.StatusCode != want || !resp.Close || (want == 503) != (resp.Header.Get("Retry-After") == "1") ||
			resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s on a fifth: %v %v", path, resp, err)
		}
	}
	eventually(t, func() bool { return l.counts.Connections.Load() == 4 })
	if refused := l.counts.ConnectionsRefused.Load(); refused != 4 {
		t.Errorf("%d are counted as refused", refused)
	}
	close(f.work)
	for range 4 {
		if got := <-answers; got != 200 {
			t.Errorf("one at work: %d", got)
		}
	}
}

// TestARefusalIsReadToItsEnd: it comes whole, and no reset follows it, though the request is long.
func TestARefusalIsReadToItsEnd(t *testing.T) {
	f := &fixture{work: make(chan struct{})}
	defer close(f.work)
	l := f.listen(t, 4)
	for range 4 + Reserve {
		io.WriteString(l.dial(), "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	eventually(t, func() bool {
		l.conns.mu.Lock()
		defer l.conns.mu.Unlock()
		first, _ := l.conns.oldest(mute, nil)
		return len(l.conns.open) == 4+Reserve && first == nil
	})
	c := l.dial()
	fmt.Fprintf(c, "GET /id HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 6<<10))
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || resp.ContentLength != 0 ||
		!resp.Close {
		t.Fatalf("%v %v", resp, err)
	}
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("after the refusal: %v", err)
	}
	if refused := l.counts.ConnectionsRefused.Load(); refused != 1 {
		t.Errorf("%d are counted as refused", refused)
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

// TestWhoMakesRoom: who has most half requests, if it still has as many as the newcomer's peer afterwards; and what
// made room has no further say.
func TestWhoMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(3, new(Counters))
		all := map[string][]*connection{}
		admit := func(address string, want bool) {
			t.Helper()
			client, conn := net.Pipe()
			t.Cleanup(func() { client.Close() })
			n := c.admit(from{conn, address})
			if (n != nil) != want {
				t.Fatalf("a newcomer from %s is admitted: %v", address, n != nil)
			}
			all[address] = append(all[address], n)
			time.Sleep(time.Microsecond) // which is older than the next
		}
		const some, other = "10.0.0.1", "10.0.0.2"
		for range (c.max + Reserve + 1) / 2 {
			admit(some, true)
		}
		for range (c.max + Reserve - 1) / 2 {
			admit(other, true)
		}
		admit(other, false) // one fewer than of the first address
		c.changed(all[other][8], http.StateClosed)
		admit(some, true)
		admit(other, true) // three fewer
		admit(some, false) // one more
		c.changed(all[some][9], http.StateClosed)
		admit(some, true)
		if n := c.counters.ConnectionsEvicted.Load(); n != 1 {
			t.Errorf("%d made room", n)
		}

		busy := all[other][0]
		seen := busy.now()
		if !c.place(busy) || c.evict(busy, seen) {
			t.Error("a connection makes room, and its request is at work")
		}
		c.changed(busy, http.StateIdle)
		time.Sleep(minIdle)
		admit("10.0.0.3", true)
		for range 2 {
			if c.place(busy) {
				t.Error("a request of a connection that made room has a place")
			}
			c.changed(busy, http.StateIdle)
		}
		if c.changed(busy, http.StateClosed); c.placed != 0 || len(c.open) != c.max+Reserve {
			t.Errorf("%d have a place, %d are open", c.placed, len(c.open))
		}
	})
}
