package grpcapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
)

// A fixture is a server, and what it asks. Its ids begin at 1001, and come in runs of at most 400.
type fixture struct {
	Server
	t        testing.TB
	c        Config
	counters Counters
	limits   server.Counters
	next     atomic.Uint64
	refusal  atomic.Pointer[error] // instead of ids
	hold     chan struct{}         // if not nil, a Batch waits for it
	unready  atomic.Bool
	pipes    pipes
	ended    chan error
}

var errSpent = errors.New("lease expired 12s ago")

func newFixture(t testing.TB, change func(*Config)) *fixture {
	f := &fixture{t: t, pipes: pipes{make(chan net.Conn), new(sync.Once)}, ended: make(chan error, 1)}
	f.next.Store(1001)
	f.c = Config{
		Batch: f.batch, Counters: &f.counters,
		Stats: func() *katsubushipb.StatsResponse {
			return &katsubushipb.StatsResponse{Pid: 1, Uptime: 2, Time: 3, Version: "4.5.6", CurrConnections: 7,
				TotalConnections: 8, CmdGet: 9, GetHits: 10, GetMisses: 11}
		},
		Ready: func() error {
			if f.unready.Load() {
				return errors.New("no worker id yet")
			}
			return nil
		},
		Limits: server.Config{Counters: &f.limits, Budget: server.NewBudget(0), Log: slog.New(slog.DiscardHandler)},
	}
	if change != nil {
		change(&f.c)
	}
	f.Server = New(f.c)
	return f
}

func (f *fixture) batch(ctx context.Context, key []byte, n int) (runs []id.Run, err error) {
	if len(key) > 0 {
		f.t.Errorf("asked for %q", key)
	}
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := f.refusal.Load(); err != nil {
		return nil, *err
	}
	for n > 0 {
		one := min(n, 400)
		runs = append(runs, id.Run{First: f.next.Add(uint64(one)) - uint64(one), Stride: 1, N: one})
		n -= one
	}
	return runs, nil
}

// serve serves on a port of loopback until the test ends, and returns its address.
func (f *fixture) serve() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	go func() { f.ended <- f.Serve(ln) }()
	f.t.Cleanup(f.stop)
	return ln.Addr().String()
}

func (f *fixture) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Shutdown(ctx)
	if err := <-f.ended; err != nil {
		f.t.Error("Serve:", err)
	}
}

// servePipes serves the other ends of what pipe returns, until stop.
func (f *fixture) servePipes() { go func() { f.ended <- f.Serve(f.pipes) }() }

// pipe connects without a network, so that time can be fake.
func (f *fixture) pipe() net.Conn {
	ours, theirs := net.Pipe()
	f.pipes.conns <- theirs
	return ours
}

// pipes is a listener of them.
type pipes struct {
	conns  chan net.Conn
	closed *sync.Once
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	p.closed.Do(func() { close(p.conns) })
	return nil
}
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// dial makes a client.
func dial(t testing.TB, address string, creds credentials.TransportCredentials,
	options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	c, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// await waits for a condition.
func await(t testing.TB, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain: ", what)
		}
	}
}

// says returns an error's status as text.
func says(err error) string {
	s := status.Convert(err)
	return s.Code().String() + ": " + s.Message()
}

// A wire is a connection whose frames a test sends and reads itself. One goroutine may read, and any
// number write, by begin, data, call, reset and pong.
type wire struct {
	net.Conn
	*http2.Framer
	writing sync.Mutex
	head    bytes.Buffer
	encode  *hpack.Encoder
}

// newWire sends the preface and settings over a connection.
func newWire(c net.Conn, settings ...http2.Setting) *wire {
	w := &wire{Conn: c, Framer: http2.NewFramer(c, c)}
	w.encode = hpack.NewEncoder(&w.head)
	w.SetReuseFrames()
	read := make(chan struct{})
	go func() { // the server sends its settings first; a pipe has no buffer
		defer close(read)
		w.ReadFrame()
	}()
	io.WriteString(c, http2.ClientPreface)
	w.WriteSettings(settings...)
	<-read
	return w
}

// header is the metadata of a call.
func (w *wire) header(method string, more ...string) []byte {
	w.head.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "x", "content-type",
		"application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		w.encode.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return w.head.Bytes()
}

// begin begins a call, without its message.
func (w *wire) begin(stream uint32, method string) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: w.header(method), EndHeaders: true})
}

// data sends a part of a call's message.
func (w *wire) data(stream uint32, last bool, part []byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.WriteData(stream, last, part)
}

// call makes a whole call.
func (w *wire) call(stream uint32, method string, message []byte) error {
	if err := w.begin(stream, method); err != nil {
		return err
	}
	return w.data(stream, true, framedMessage(message))
}

func (w *wire) reset(stream uint32) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.WriteRSTStream(stream, http2.ErrCodeCancel)
}

// pong answers a ping.
func (w *wire) pong(ping *http2.PingFrame) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.WritePing(true, ping.Data)
}

// framedMessage puts a message's flag and length before it.
func framedMessage(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

const (
	fetch      = "/katsubushi.Generator/Fetch"
	fetchMulti = "/katsubushi.Generator/FetchMulti"
)

var thousand = []byte{1 << 3, 0xe8, 0x07} // n = 1000
