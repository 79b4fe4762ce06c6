package grpcapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// Clients that hold something are closed exactly when their time is over; those that do not, go on.
func TestStalledClients(t *testing.T) {
	deaf := func(w *wire) { // reads nothing
		w.SetDeadline(time.Now().Add(time.Hour))
		for stream := uint32(1); w.call(stream, fetchMulti, thousand) == nil; stream += 2 {
		}
	}
	talks := func(w *wire) { // reads everything, and answers pings
		for {
			f, err := w.ReadFrame()
			if err != nil {
				return
			}
			if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
				w.pong(p)
			}
		}
	}
	noWindow := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}
	for _, c := range []struct {
		name     string
		settings []http2.Setting
		does     func(w *wire)
		after    time.Duration // since the first frame; 0 = never
		stalled  uint64
	}{
		{"takes no answers", nil, deaf, stallTime, 1},
		{"gives no room for answers, but answers pings", []http2.Setting{noWindow}, func(w *wire) {
			go talks(w)
			for stream := uint32(1); stream < 2*maxStreams; stream += 2 {
				w.call(stream, fetchMulti, thousand)
			}
		}, stallTime, 1},
		{"gives no room for one answer, and goes on", []http2.Setting{noWindow}, func(w *wire) {
			go talks(w)
			w.call(1, fetchMulti, thousand)
			for stream := uint32(3); w.call(stream, "/katsubushi.Generator/Nothing", nil) == nil; stream += 2 {
				time.Sleep(time.Second)
			}
		}, stallTime, 1},
		{"does not finish a request, but answers pings", nil, func(w *wire) {
			go talks(w)
			w.begin(1, fetchMulti)
			w.data(1, false, []byte{0, 0, 0, 0, 9, 8})
		}, stallTime, 1},
		{"takes back what it has not finished", nil, func(w *wire) {
			go talks(w)
			w.begin(1, fetchMulti)
			w.reset(1)
		}, 0, 0},
		{"watches", nil, func(w *wire) {
			go talks(w)
			w.call(1, "/grpc.health.v1.Health/Watch", nil)
			for stream := uint32(3); w.call(stream, fetch, nil) == nil; stream += 2 {
				time.Sleep(7 * time.Second)
			}
		}, 0, 0},
		{"is silent, but answers pings", nil, func(w *wire) { talks(w) }, 0, 0},
		{"is silent, and answers no pings", nil, func(w *wire) {
			for {
				if _, err := w.ReadFrame(); err != nil {
					return
				}
			}
		}, pingAfter + pingTimeout, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.servePipes()
			w := newWire(f.pipe(), c.settings...)
			began := time.Now()
			does := make(chan struct{})
			go func() {
				c.does(w)
				close(does)
			}()
			for f.limits.Current.Load() > 0 && time.Since(began) < time.Hour {
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(began)
			if c.after == 0 && f.limits.Current.Load() == 0 || c.after > 0 &&
				(took < c.after || took > c.after+2*sweepPause+time.Second) || f.counters.Stalled.Load() != c.stalled {
				t.Errorf("%s: %d open, %d stalled after %v; want %v", c.name, f.limits.Current.Load(), f.counters.Stalled.Load(),
					took, c.after)
			}
			w.Conn.Close()
			<-does
			f.stop()
			synctest.Wait()
			if n, m := f.limits.Current.Load(), f.counters.Connections.Load(); n != 0 || m != 0 ||
				f.c.Limits.Budget.Held() != 0 {
				t.Errorf("%s: in the end %d and %d connections, %d bytes", c.name, n, m, f.c.Limits.Budget.Held())
			}
		})
	}
}

// Who says nothing, or something else than HTTP/2, is closed.
func TestHandshakes(t *testing.T) {
	for _, c := range []struct {
		says  string
		after time.Duration
	}{{"", handshakeTime}, {http2.ClientPreface, handshakeTime}, {http2.ClientPreface[:10], handshakeTime}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.servePipes()
			p := f.pipe()
			began := time.Now()
			go io.WriteString(p, c.says)
			io.Copy(io.Discard, p)
			if took := time.Since(began); took != c.after {
				t.Errorf("%q: closed after %v, want %v", c.says, took, c.after)
			}
			f.stop()
		})
	}
	f := newFixture(t, nil)
	address := f.serve()
	for _, says := range []string{
		"GET /id HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /katsubushi.Generator/Fetch HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n\x00\x00\x00\x00\x00",
		"get id\r\nget id\r\nget id\r\n", strings.Repeat("\x80\x00", 30), "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 100),
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		io.WriteString(c, says)
		answer, err := io.ReadAll(c)
		if ne, ok := err.(net.Error); ok && ne.Timeout() || len(answer) > 100 || strings.Contains(string(answer), "HTTP/1") {
			t.Errorf("%.20q: answered %q, %v", says, answer, err)
		}
	}
	if f.counters.Requests.Load() != 0 {
		t.Error("one of them got an id")
	}
	await(t, "their end", func() bool { return f.limits.Current.Load() == 0 })
}

// Calls above the limit of a connection are reset; those of other connections are answered.
func TestTenThousandStreams(t *testing.T) {
	f := newFixture(t, nil)
	f.hold = make(chan struct{})
	address := f.serve()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	w := newWire(c)
	go func() {
		for i := range uint32(10_000) {
			if w.call(1+2*i, fetch, nil) != nil {
				return
			}
		}
	}()
	for refused := 0; refused < 10_000-maxStreams; {
		frame, err := w.ReadFrame()
		if err != nil {
			t.Fatal(refused, "refused, then", err)
		}
		if r, ok := frame.(*http2.RSTStreamFrame); ok {
			if refused++; r.ErrCode != http2.ErrCodeRefusedStream {
				t.Fatal(r)
			}
		}
	}
	if n := f.counters.Requests.Load(); n != maxStreams {
		t.Errorf("%d calls were begun", n)
	}
	close(f.hold)
	if _, err := katsubushipb.NewGeneratorClient(dial(t, address, nil)).Fetch(soon(t), nil); err != nil {
		t.Error("another connection:", err)
	}
}

// A request that comes as 20,000 frames of one byte is answered as any other, and costs a time that
// grows with its length only: others are answered meanwhile. So is one with 2,000 empty frames before its first byte.
func TestFramesOfOneByte(t *testing.T) {
	f := newFixture(t, nil)
	address := f.serve()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	w := newWire(c)
	message := protowire.AppendTag(nil, 2, protowire.BytesType) // a field that nobody knows
	message = framedMessage(protowire.AppendBytes(message, make([]byte, 20_000-9)))
	sent := make(chan error, 1)
	go func() {
		var last error
		w.begin(1, fetch)
		for i, b := range message {
			last = w.data(1, i == len(message)-1, []byte{b})
		}
		sent <- last
	}()
	answered := func(stream uint32) {
		t.Helper()
		for {
			frame, err := w.ReadFrame()
			if err != nil {
				t.Fatal(stream, err)
			}
			switch frame := frame.(type) {
			case *http2.HeadersFrame:
				if frame.StreamID == stream && frame.StreamEnded() {
					return
				}
			case *http2.RSTStreamFrame, *http2.GoAwayFrame:
				t.Fatal(frame)
			}
		}
	}
	other := katsubushipb.NewGeneratorClient(dial(t, address, nil))
	if _, err := other.Fetch(soon(t), nil); err != nil {
		t.Error("another connection:", err)
	}
	answered(1)
	if err := <-sent; err != nil || f.counters.IDs.Load() != 2 {
		t.Errorf("%v, %d ids", err, f.counters.IDs.Load())
	}
	go func() {
		w.begin(3, fetch)
		for range 2000 {
			w.data(3, false, nil)
		}
		w.data(3, true, framedMessage(nil))
	}()
	answered(3)
	if n := f.counters.IDs.Load(); n != 3 {
		t.Errorf("%d ids", n)
	}
}

// A client that ends its half of a call twice, while it does not take the answer. At this grpc-go v1.83
// ended the process.
func TestTwoEnds(t *testing.T) {
	f := newFixture(t, nil)
	address := f.serve()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := newWire(c, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for stream := uint32(1); stream < 200; stream += 2 {
		w.call(stream, fetchMulti, thousand)
	}
	await(t, "the answers", func() bool { return f.counters.Requests.Load() == 100 })
	for stream := uint32(1); stream < 200; stream += 2 {
		w.data(stream, true, nil)
	}
	if _, err := katsubushipb.NewGeneratorClient(dial(t, address, nil)).Fetch(soon(t), nil); err != nil {
		t.Error("another connection:", err)
	}
}

// What clients hold counts in the budget that all ports share; above its limit the one that holds the
// most is closed.
func TestBudget(t *testing.T) {
	const most = 1 << 20
	f := newFixture(t, func(c *Config) { c.Limits.Budget = server.NewBudget(most) })
	address := f.serve()
	stall := func(calls uint32) *wire {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		w := newWire(c)
		for i := range calls {
			w.begin(1+2*i, fetch)
			if i < 3 {
				w.data(1+2*i, false, append([]byte{0, 0, 0, 0xff, 0xff}, make([]byte, 10_000)...))
			}
		}
		return w
	}
	small := stall(20)
	const least = 20*callSize + 3*(10_005+frameSize)
	await(t, "what the small one holds", func() bool { return f.c.Limits.Budget.Held() == least })
	big := stall(60)
	closed := make(chan struct{})
	go func() {
		io.Copy(io.Discard, big)
		close(closed)
	}()
	select {
	case <-closed:
	case <-soon(t).Done():
		t.Fatal("the big one is open")
	}
	await(t, "what the big one held", func() bool { return f.c.Limits.Budget.Held() == least })
	if f.limits.Current.Load() != 1 || f.c.Limits.Budget.Closed() != 1 || f.counters.Stalled.Load() != 0 {
		t.Errorf("%d open, %d closed, %d stalled", f.limits.Current.Load(), f.c.Limits.Budget.Closed(),
			f.counters.Stalled.Load())
	}
	small.Conn.Close()
	await(t, "what the small one held", func() bool { return f.c.Limits.Budget.Held() == 0 })
}

// A call counts from its first frame on. A client needs no time to begin 250, nor to connect again: by the
// next sweep it would be too late.
func TestCallsCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 60
		f := newFixture(t, func(c *Config) { c.Limits.Budget = server.NewBudget(calls * callSize) })
		f.servePipes()
		began := time.Now()
		w := newWire(f.pipe(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		go io.Copy(io.Discard, w)
		closed := func() uint64 {
			synctest.Wait()
			return f.c.Limits.Budget.Closed()
		}
		for i := range uint32(calls) {
			w.call(1+2*i, fetchMulti, thousand)
			if i == calls-10 && closed() != 0 {
				t.Errorf("%d calls, and the connection is closed", i)
			}
		}
		n, open, bytes := closed(), f.limits.Current.Load(), f.c.Limits.Budget.Held()
		if took := time.Since(began); n != 1 || took != 0 || open != 0 || bytes != 0 {
			t.Errorf("%d closed after %v; %d connections and %d bytes left", n, took, open, bytes)
		}
		w.Conn.Close()
		f.stop()
	})
}

// The calls of a connection that was closed take memory until their handlers have ended. Meanwhile no new
// call begins, of whichever address: an attacker may have many. Then they are answered.
func TestRemainsOfConnections(t *testing.T) {
	hold := make(chan struct{})
	var held atomic.Int64
	f := newFixture(t, func(c *Config) {
		c.Limits.Budget = server.NewBudget(64 * callSize)
		answer := c.Batch
		c.Batch = func(ctx context.Context, key []byte, n int) ([]id.Run, error) {
			if n > 1 { // it does not notice that its client has gone
				held.Add(1)
				<-hold
			}
			return answer(ctx, key, n)
		}
	})
	address := f.serve()
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	from := func(host string) *wire {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
		c, err := d.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		return newWire(c)
	}
	const calls = 64/leftShare + 1
	var gone []*wire
	for _, host := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} { // none has a large part
		gone = append(gone, from(host))
	}
	for i := range uint32(calls) {
		gone[i%3].call(1+2*i, fetchMulti, thousand)
	}
	await(t, "the handlers", func() bool { return held.Load() == calls })
	for _, w := range gone {
		w.Conn.Close()
	}
	await(t, "the end of the connections", func() bool { return f.limits.Current.Load() == 0 })
	waiting := func() int {
		f.conns.sharing.Lock()
		defer f.conns.sharing.Unlock()
		return f.conns.waiting
	}
	leaves, stays := from("127.0.0.2"), from("127.0.0.5")
	leaves.call(1, fetch, nil)
	stays.call(1, fetch, nil)
	await(t, "calls that wait", func() bool { return waiting() == 2 })
	var left *conn
	f.conns.mu.Lock()
	for c := range f.conns.open {
		if c.RemoteAddr().String() == leaves.LocalAddr().String() {
			left = c
		}
	}
	f.conns.mu.Unlock()
	left.Close()
	await(t, "the end of one that waits", func() bool { return waiting() == 1 })
	if n := f.counters.IDs.Load(); n != 0 {
		t.Fatalf("%d ids are issued while the calls of former connections are in memory", n)
	}
	release()
	for answered := false; !answered; {
		frame, err := stays.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		head, ok := frame.(*http2.HeadersFrame)
		answered = ok && head.StreamEnded()
	}
	await(t, "nobody waits", func() bool { return waiting() == 0 })
}

// What would exceed the limit never reaches grpc-go: 250 handlers would begin for a connection that is closed.
func TestCallsOfAClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.Limits.Budget = server.NewBudget(10 * callSize) })
		f.servePipes()
		synctest.Wait()
		ours, theirs := net.Pipe()
		c := f.conns.add(theirs)
		read := func(calls uint32) error {
			var sent bytes.Buffer
			w := http2.NewFramer(&sent, nil)
			for i := range calls {
				w.WriteHeaders(http2.HeadersFrameParam{StreamID: c.last + 2*i + 1, EndHeaders: true})
			}
			go ours.Write(sent.Bytes())
			n, err := (&framed{Conn: c, conn: c}).Read(make([]byte, 10_000))
			if err == nil && n != sent.Len() || err != nil && n != 0 {
				t.Errorf("%d bytes of %d, %v", n, sent.Len(), err)
			}
			return err
		}
		if err := read(10); err != nil {
			t.Error("within the limit:", err)
		}
		if err := read(1); err != net.ErrClosed {
			t.Error("above the limit:", err)
		}
		ours.Close()
		f.stop()
	})
}

// A client that takes its calls back at once is slowed down, and no other one; to take back all of its calls
// costs it nothing.
func TestRapidReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.servePipes()
		w, other := newWire(f.pipe()), newWire(f.pipe())
		go io.Copy(io.Discard, w)
		go io.Copy(io.Discard, other)
		resets := func(from, n uint32) time.Duration {
			began := time.Now()
			for i := from; i < from+n; i++ {
				if w.begin(1+2*i, fetch) != nil || w.reset(1+2*i) != nil {
					t.Error("the connection ends")
					break
				}
			}
			synctest.Wait()
			return time.Since(began)
		}
		if took := resets(0, resetBurst); took != 0 {
			t.Errorf("%d resets took %v", resetBurst, took)
		}
		time.Sleep(resetBurst * resetPause)
		const more = 300
		done := make(chan time.Duration, 1)
		go func() { done <- resets(resetBurst, resetBurst+more) }()
		time.Sleep(more * resetPause / 2)
		began, before := time.Now(), f.counters.Requests.Load()
		other.call(1, fetch, nil)
		synctest.Wait()
		if n := f.counters.Requests.Load(); n != before+1 || time.Since(began) != 0 {
			t.Errorf("another client has to wait: %d requests after %v", n-before, time.Since(began))
		}
		if took, want := <-done, more*resetPause; took < want-2*resetPause || took > want {
			t.Errorf("%d resets too many took %v, want %v", more, took, want)
		}
		w.Conn.Close()
		other.Conn.Close()
		f.stop()
	})
}

// With a certificate the port speaks TLS and nothing else; clients that need not be told of HTTP/2 are
// refused.
func TestTLS(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	pool, err := selfsigned.Write(cert, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	encrypt, err := server.NewTLS(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(c *Config) { c.TLS = encrypt })
	address := f.serve()
	fetches := func(creds credentials.TransportCredentials) error {
		_, err := katsubushipb.NewGeneratorClient(dial(t, address, creds)).Fetch(soon(t), nil)
		return err
	}
	if err := fetches(credentials.NewTLS(&tls.Config{RootCAs: pool})); err != nil {
		t.Error("TLS:", err)
	}
	if err := fetches(nil); status.Code(err) != codes.Unavailable {
		t.Error("plain text:", err)
	}
	if err := fetches(credentials.NewTLS(&tls.Config{})); status.Code(err) != codes.Unavailable {
		t.Error("a client that does not know the authority:", err)
	}
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
	if err == nil {
		c.SetDeadline(time.Now().Add(5 * time.Minute))
		io.WriteString(c, "GET /id HTTP/1.1\r\nHost: x\r\n\r\n")
		if b, _ := io.ReadAll(c); strings.Contains(string(b), "HTTP/1") {
			t.Errorf("HTTP/1 over TLS: %q", b)
		}
	}
	await(t, "the end of all others", func() bool { return f.counters.Connections.Load() <= 1 })

	if _, err := selfsigned.Write(cert, key, 2); err != nil {
		t.Fatal(err)
	}
	if err := encrypt.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := fetches(credentials.NewTLS(&tls.Config{RootCAs: pool})); err == nil {
		t.Error("a new connection gets the old certificate")
	}
}

// Busy is called by each sweep since which there were more than 1,000 requests a second, and never after
// the end.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int64
		f := newFixture(t, func(c *Config) { c.Busy = func() { busy.Add(1) } })
		f.servePipes()
		time.Sleep(sweepPause / 2)
		for i, c := range []struct {
			requests uint64
			want     int64
		}{{0, 0}, {busyCalls, 0}, {busyCalls + 1, 1}, {1_000_000, 1}, {1, 0}, {0, 0}, {busyCalls, 0}, {busyCalls + 1, 1}} {
			f.counters.Requests.Add(c.requests)
			before := busy.Load()
			time.Sleep(sweepPause)
			synctest.Wait()
			if n := busy.Load() - before; n != c.want {
				t.Errorf("sweep %d, after %d requests: called %d times, want %d", i, c.requests, n, c.want)
			}
		}
		f.counters.Requests.Add(1_000_000)
		before := busy.Load()
		f.stop()
		time.Sleep(time.Minute)
		if n := busy.Load() - before; n != 0 {
			t.Errorf("called %d times after the end", n)
		}
	})
}
