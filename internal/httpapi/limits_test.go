package httpapi

import (
	"bufio"
	"context"
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

// TestSlowClientsAreHungUpOn: exactly when their time is over.
func TestSlowClientsAreHungUpOn(t *testing.T) {
	for _, c := range []struct {
		name, sends, answer string
		after               time.Duration
	}{
		{"says nothing", "", "", 5 * time.Second},
		{"does not finish a header", "GET /healthz HTTP/1.1\r\nHost: x", "", 5 * time.Second},
		{"does not finish a body", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
			"HTTP/1.1 400 Bad Request", 10 * time.Second},
		{"asks nothing more", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK", 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := new(fixture)
			s := NewServer(f.config())
			l := pipes{make(chan net.Conn)}
			go s.Serve(s.Listener(l))
			client, conn := net.Pipe()
			l.conns <- conn
			began := time.Now()
			client.SetDeadline(began.Add(time.Hour))
			if synctest.Wait(); f.counts.Connections.Load() != 1 {
				t.Errorf("%d connections are counted", f.counts.Connections.Load())
			}
			go io.WriteString(client, c.sends)
			b, err := io.ReadAll(client)
			if took := time.Since(began); took != c.after || err != nil || !strings.HasPrefix(string(b), c.answer) ||
				c.answer == "" && len(b) > 0 {
				t.Errorf("who %s: %q, %v after %v, want %v", c.name, b, err, took, c.after)
			}
			client.Close()
			s.Close()
			synctest.Wait()
			if n := f.counts.Connections.Load(); n != 0 {
				t.Errorf("who %s: %d connections are counted", c.name, n)
			}
		})
	}
}

// TestTheFirstRequestIsAnsweredAtTheEnd: a connection that was accepted before the end gets its answer,
// and one that asks nothing does not hold the end up for long. The same at the debug port.
func TestTheFirstRequestIsAnsweredAtTheEnd(t *testing.T) {
	for path, make := range map[string]func(*fixture) Server{
		"/id":           func(f *fixture) Server { return NewServer(f.config()) },
		"/debug/events": func(*fixture) Server { return NewDebugServer(false, false, new(events.Log), nil) },
	} {
		for _, speaks := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) { endWithOne(t, make(new(fixture)), path, speaks) })
		}
	}
}

// endWithOne ends a server with a connection that asks for path then, or says nothing.
func endWithOne(t *testing.T, s Server, path string, speaks bool) {
	p := newPipes()
	l := new(fixture).serveOn(t, s, p, p.dial)
	c, ended := l.dial(), make(chan error, 1)
	synctest.Wait()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	go func() { ended <- l.Shutdown(ctx) }()
	want := time.Second
	if speaks {
		time.Sleep(settleTime / 2)
		if status, goesOn := c.askOn(path); status != http.StatusOK || goesOn {
			t.Errorf("the first request is answered %d, and the connection goes on: %v", status, goesOn)
		}
		want = settleTime
	}
	if err := <-ended; (err == nil) != speaks || time.Since(began) > want {
		t.Errorf("%v after %v, want it within %v", err, time.Since(began), want)
	}
}

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

// TestSilentConnectionsMakeRoom: once they have been silent for a second; until then newcomers are
// refused, at once but for the first.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(fixture).listenInBubble(t, 4)
		began := time.Now()
		const first = 3 // come one after another, the others at once
		var silent []client
		for range 1000 {
			if silent = append(silent, l.dial()); len(silent) <= first {
				synctest.Wait()
				time.Sleep(1 * time.Nanosecond)
			}
		}
		for _, c := range silent[4+Reserve+Refusing:] {
			if !c.closed() {
				t.Fatal("one too many is open")
			}
		}
		if took := time.Since(began); took != patience+first {
			t.Errorf("the last is refused after %v, want %v", took, patience+first)
		}
		time.Sleep(minIdle - patience - first - 1)
		if got := l.dial().ask("/healthz"); got != 503 {
			t.Errorf("a newcomer, before anybody has been silent for a second: %d", got)
		}
		time.Sleep(first * time.Nanosecond)
		for i := range first {
			if got := l.dial().ask("/healthz"); got != 200 {
				t.Errorf("newcomer %d: %d", i, got)
			}
		}
		for i, c := range silent[:6] { // the newcomers went, or are idle: room for them
			if i < first && !c.closed() {
				t.Errorf("silent connection %d is open", i)
			} else if got := 0; i >= first {
				if got = c.ask("/healthz"); got != 200 {
					t.Errorf("silent connection %d: %d", i, got)
				}
			}
		}
		n := &l.counts
		if open, refused, evicted := n.Connections.Load(), n.ConnectionsRefused.Load(),
			n.ConnectionsEvicted.Load(); open > 4+Reserve || refused != 1000-4-Reserve+1 || evicted != 3 {
			t.Errorf("%d connections are counted, %d refused, %d evicted", open, refused, evicted)
		}
		silent[10].Close()
		if synctest.Wait(); l.conns.stuck {
			t.Error("a connection has ended, and newcomers are still refused at once")
		}
	})
}

// from is a connection that comes from an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }

// dialFrom makes a connection that comes from an address.
func (p pipes) dialFrom(t *testing.T, address string) client {
	there, conn := net.Pipe()
	p.conns <- from{conn, address}
	t.Cleanup(func() { there.Close() })
	return client{there, bufio.NewReader(there)}
}

// TestHalfRequestsOfOneAddress: they take nothing of another address away, however many there are, whether a header or
// a body is missing, and the debug port bounds them too.
func TestHalfRequestsOfOneAddress(t *testing.T) {
	const limit = 32
	public := func() Server {
		c := new(fixture).config()
		c.MaxConnections = limit
		return NewServer(c)
	}
	debug := func() Server { return NewDebugServer(false, false, new(events.Log), nil) }
	for _, c := range []struct {
		path, half string
		server     func() Server
	}{
		{"/healthz", "GET /healthz HTTP/1.1\r\nHost: x", public},
		{"/healthz", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx", public},
		{"/id", "GET /id HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", public},
		{"/id", "GET /id HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n" + strings.Repeat("x", maxBody+1), public},
		{"/debug/events", "GET /debug/events HTTP/1.1\r\nHost: x", debug},
		{"/debug/events", "GET /debug/events HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx", debug},
	} {
		path, server := c.path, c.server
		synctest.Test(t, func(t *testing.T) {
			p := newPipes()
			dial := func(address string) func() (net.Conn, error) {
				return func() (net.Conn, error) {
					client, conn := net.Pipe()
					p.conns <- from{conn, address}
					return client, nil
				}
			}
			t.Cleanup(func() { time.Sleep(time.Second) }) // what is answered although it is not whole is closed later
			l := new(fixture).serveOn(t, server(), p, dial("10.0.0.1"))
			halves := func(n int) {
				for range n {
					go io.WriteString(l.dial(), c.half)
				}
				synctest.Wait()
			}
			halves(1300)
			time.Sleep(patience)
			synctest.Wait()
			if n := len(l.conns.open); n > limit+Reserve {
				t.Errorf("%s: %d half requests are open", path, n)
			}
			began := time.Now()
			for i := range 95 {
				conn, _ := dial("10.0.0.2")()
				probe := client{conn, bufio.NewReader(conn)}
				if got := probe.ask(path); got != 200 {
					t.Fatalf("%s: probe %d: %d", path, i, got)
				}
				probe.Close()
				synctest.Wait()
				halves(2)
			}
			if took := time.Since(began); took > 95*patience {
				t.Errorf("%s: the probes waited %v", path, took)
			}
		})
	}
}

// TestAnswersNotReadByOneAddress: they take no place from another address for over a second.
func TestAnswersNotReadByOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := new(fixture).listenOn(t, 4, p, p.dial)
		dial := func(address string) client { return p.dialFrom(t, address) }
		const request = "GET /id HTTP/1.1\r\nHost: x\r\n\r\n"
		oldest := dial("10.0.0.2")
		io.WriteString(oldest, request)
		synctest.Wait()
		time.Sleep(1 * time.Nanosecond)
		for range 5 { // the last two have no place
			io.WriteString(dial("10.0.0.1"), request)
		}
		ask := func(address string, want int) {
			t.Helper()
			if got := dial(address).ask("/id"); got != want {
				t.Errorf("a newcomer from %s: %d, want %d", address, got, want)
			}
			synctest.Wait()
		}
		synctest.Wait()
		time.Sleep(minIdle - 1)
		ask("10.0.0.3", 503)
		time.Sleep(1 * time.Nanosecond)
		ask("10.0.0.1", 503)
		ask("10.0.0.3", 200)
		ask("10.0.0.3", 200)
		ask("10.0.0.3", 503) // each other address has one left
		if _, err := http.ReadResponse(oldest.r, nil); err != nil {
			t.Error("the only one of its address made room:", err)
		}
		if n := l.counts.ConnectionsEvicted.Load(); n != 2 {
			t.Errorf("%d are counted as evicted", n)
		}
	})
}

// TestOneAddressThatAsksForEver takes no place from another address, though none of its connections rests.
func TestOneAddressThatAsksForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		l := new(fixture).listenOn(t, 5, p, p.dial)
		dial := func(address string) client { return p.dialFrom(t, address) }
		ask := func(c client, want int) {
			t.Helper()
			if got := c.ask("/id"); got != want {
				t.Errorf("%d, want %d", got, want)
			}
			synctest.Wait()
			time.Sleep(1 * time.Nanosecond)
		}
		var busy []client
		for range 5 {
			busy = append(busy, dial("10.0.0.1"))
			ask(busy[len(busy)-1], 200)
		}
		ask(dial("10.0.0.1"), 503)
		first, second := dial("10.0.0.2"), dial("10.0.0.2")
		ask(first, 200)
		ask(second, 200)
		ask(dial("10.0.0.2"), 503) // it would have more
		if !busy[0].closed() || !busy[1].closed() {
			t.Error("newcomers have not got the places of those that asked first")
		}
		ask(busy[2], 200)
		ask(first, 200)
		if n := l.counts.ConnectionsEvicted.Load(); n != 2 {
			t.Errorf("%d are counted as evicted", n)
		}
	})
}

// TestIdleConnectionsMakeRoom: the longest idle first, and none that has been idle for less than a
// second.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(fixture).listenInBubble(t, 3)
		mute := l.dial()
		a, b, c := l.dial(), l.dial(), l.dial()
		for i, conn := range []client{a, b, c, a} {
			if got := conn.ask("/id"); got != 200 {
				t.Fatalf("request %d: %d", i, got)
			}
			time.Sleep(minIdle / 4)
		}
		newcomer := func(want int) {
			t.Helper()
			if got := l.dial().ask("/id"); got != want {
				t.Errorf("a newcomer: %d, want %d", got, want)
			}
			synctest.Wait()
		}
		time.Sleep(minIdle/4 - 1) // b has been idle for a second, but for a nanosecond
		newcomer(503)
		time.Sleep(1 * time.Nanosecond)
		newcomer(200)
		newcomer(503)
		time.Sleep(minIdle / 4)
		newcomer(200)
		for name, conn := range map[string]client{"first": b, "second": c} {
			if !conn.closed() {
				t.Errorf("the %s newcomer has not got the place of the one that was idle for longest", name)
			}
		}
		if got := a.ask("/id"); got != 200 {
			t.Errorf("one that asked again: %d", got)
		}
		if got := mute.ask("/healthz"); got != 200 {
			t.Errorf("one that has yet to ask: %d", got)
		}
		if n := l.counts.ConnectionsEvicted.Load(); n != 2 {
			t.Errorf("%d are counted as evicted", n)
		}
	})
}

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
