package grpcapi

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// connections bounds what clients can hold.
//
// grpc-go limits a message, and the calls of a connection. But for as long as a client answers pings it
// keeps the requests that the client does not complete and the answers that it does not take: 250 of up
// to 64 KB for each connection. It has no figure for that. So each connection looks at the headers of
// its frames, which say what calls are open, and a sweep looks at the connections:
//
//   - A call that is older than a sweep holds what was received of its request, and callSize for its
//     answer. That is a part of the Budget that all ports share: above its limit, the connections that
//     hold the most are closed.
//   - A connection is closed if it has calls that are older than stallTime and no handler is at work on:
//     their requests are not complete, or their answers are not taken.
type connections struct {
	limits   server.Config
	counters *Counters
	busy     func()
	tick     atomic.Uint32 // sweeps so far
	asked    uint64        // Counters.Requests at the last sweep; used by the sweep alone

	mu    sync.Mutex
	open  map[*conn]struct{} // closed ones too, until the next sweep
	share *server.Share      // used by the sweep alone
}

const (
	sweepPause = 200 * time.Millisecond
	stallTime  = 30 * time.Second
	stallTicks = uint32(stallTime / sweepPause)
	busyCalls  = 200                         // requests between two sweeps
	callSize   = 16 << 10                    // bytes: an answer of 1,000 ids, and what grpc-go keeps for a call
	frameSize  = 48                          // bytes: what grpc-go keeps for a frame of a request, beside its payload
	mostBytes  = (1 + frameSize) * 128 << 10 // of a request: grpc-go receives 64 KiB ahead of the handler
)

// Counters counts requests for ids, and connections. Read it at any time.
type Counters struct {
	Requests, IDs, Refused atomic.Uint64
	Logins, LoginErrors    atomic.Uint64 // calls with a user and a password; those of them that were wrong

	Connections atomic.Int64  // open now; server.Counters has them too
	Stalled     atomic.Uint64 // closed because of calls that did not end
}

// A conn is a connection, with what it carries: what is above TLS is a framed.
type conn struct {
	net.Conn
	conns   *connections
	closed  atomic.Bool
	working atomic.Int32   // handlers
	holding server.Holding // used by the sweep alone

	mu    sync.Mutex
	calls map[uint32]call // by stream
	last  uint32          // the newest stream
}

// A call is one that has begun, and whose answer has not left yet.
type call struct {
	since    uint32 // tick
	received uint32 // bytes of its request and its frames, mostBytes at most
}

// A listener returns only connections within the limit, and closes all others.
type listener struct {
	net.Listener
	conns *connections
}

func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		switch {
		case err != nil:
			return nil, err
		case l.conns.limits.Admit():
			return l.conns.add(c), nil
		}
		c.Close()
	}
}

func (cs *connections) add(c net.Conn) *conn {
	cs.counters.Connections.Add(1)
	n := &conn{Conn: c, conns: cs, calls: make(map[uint32]call)}
	n.holding.Owner = n
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open[n] = struct{}{}
	return n
}

// Close closes the connection and gives its place back.
func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.conns.counters.Connections.Add(-1)
		c.conns.limits.Counters.Current.Add(-1)
	}
	return c.Conn.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.conns.limits.Counters.BytesRead.Add(uint64(n))
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.conns.limits.Counters.BytesWritten.Add(uint64(n))
	return n, err
}

// begin and end enclose the work of a handler.
func (c *conn) begin() *conn { c.working.Add(1); return c }
func (c *conn) end()         { c.working.Add(-1) }

// A framed sees what grpc-go reads and writes: HTTP/2's frames.
type framed struct {
	net.Conn
	*conn
	in, out frames
}

func (f *framed) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	for rest, ok := f.in.next(b[:n]); ok; rest, ok = f.in.next(rest) {
		switch stream := f.in.stream(); f.in.kind() {
		case frameHeaders:
			f.began(stream)
		case frameData:
			f.got(stream, f.in.skip+frameSize)
		case frameReset:
			f.ended(stream)
		}
	}
	return n, err
}

func (f *framed) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	for rest, ok := f.out.next(b[:n]); ok; rest, ok = f.out.next(rest) {
		if f.out.kind() == frameReset || f.out.kind() == frameHeaders && f.out.endStream() {
			f.ended(f.out.stream())
		}
	}
	return n, err
}

func (f *framed) Close() error { return f.Conn.Close() }

// began notes a new call. Streams only grow: other headers are a request's trailers.
func (c *conn) began(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stream > c.last {
		c.last = stream
		c.calls[stream] = call{since: c.conns.tick.Load()}
	}
}

func (c *conn) got(stream uint32, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok := c.calls[stream]; ok {
		one.received = min(one.received+uint32(bytes), mostBytes)
		c.calls[stream] = one
	}
}

func (c *conn) ended(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, stream)
}

// holds returns what the calls hold that began before the last sweep, in bytes, and how many have
// lasted for stallTime.
func (c *conn) holds(tick uint32) (bytes int64, stalled int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		if tick-one.since > 1 {
			bytes += callSize + int64(one.received)
		}
		if tick-one.since > stallTicks {
			stalled++
		}
	}
	return bytes, stalled
}

// sweep looks at the connections until stop is called.
func (cs *connections) sweep() (stop func()) {
	full, ended, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	cs.share = cs.limits.Share(func() { // relieve
		select {
		case full <- struct{}{}:
		default:
		}
	}, func() {})
	go func() {
		defer close(done)
		defer cs.leave()
		tick := time.NewTicker(sweepPause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				cs.look(cs.tick.Add(1))
			case <-full:
				cs.close()
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended); <-done }
}

// leave gives back what connections held. All of them are closed.
func (cs *connections) leave() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		cs.share.Set(&c.holding, 0)
	}
	cs.share.Leave()
}

// look looks at all connections.
func (cs *connections) look(tick uint32) {
	asked := cs.counters.Requests.Load()
	if asked-cs.asked > busyCalls && cs.busy != nil {
		cs.busy()
	}
	cs.asked = asked
	cs.mu.Lock()
	for c := range cs.open {
		if c.closed.Load() {
			cs.share.Set(&c.holding, 0)
			delete(cs.open, c)
			continue
		}
		bytes, stalled := c.holds(tick)
		if stalled > c.working.Load() {
			cs.counters.Stalled.Add(1)
			c.Close()
		}
		cs.share.Set(&c.holding, bytes)
	}
	cs.mu.Unlock()
	cs.share.Flush()
	cs.close()
}

// close closes the connections that hold the most, while the budget is used up.
func (cs *connections) close() {
	for h := cs.share.Biggest(); h != nil; h = cs.share.Biggest() {
		c := h.Owner.(*conn)
		cs.share.Set(h, 0)
		cs.share.TellClosed(cs.limits.Log)
		c.Close()
	}
}

// credentials returns what does the handshakes: of TLS, or none. They make a conn a framed.
func (cs *connections) credentials(tls *server.TLS) credentials.TransportCredentials {
	if tls == nil {
		return transport{insecure.NewCredentials()}
	}
	return transport{credentials.NewTLS(tls.Config())}
}

type transport struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	plain, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	c := raw.(*conn)
	return &framed{Conn: plain, conn: c, in: frames{skip: prefaceLen}}, handshaken{info, c}, nil
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone()}
}

// A handshaken is how a call knows its connection.
type handshaken struct {
	credentials.AuthInfo
	conn *conn
}

// caller returns the connection of a call.
func caller(ctx context.Context) *conn {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(handshaken).conn
}
