package grpcapi

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// connections bounds what clients can hold.
//
// grpc-go limits a message, and the calls of a connection. But for as long as a client answers pings it
// keeps the requests that the client does not complete and the answers that it does not take: 250 of up
// to 64 KB for each connection. It has no figure for that. So each connection looks at the headers of
// its frames, which say what calls are open:
//
//   - From its first frame until its answer has left, a call holds what was received of its request, and
//     callSize. That is a part of the Budget that all ports share: above its limit, the connections that
//     hold the most are closed, at once. Later would be too late: a client can begin 250 calls in a
//     millisecond, and connect again.
//   - What a connection held when it ended is still in memory until grpc-go has let go of it, and Go has
//     collected it: the handlers of 250 calls may not even have begun. Above a part of the budget, what
//     was read of new calls waits until enough of that is freed. By peer it would have no bound: a client
//     may have many addresses.
//   - A connection whose client takes back more calls than resetBurst at once, or one each resetPause, is
//     not read for a while.
//   - A sweep closes a connection that has calls that are older than stallTime and no handler is at work on:
//     their requests are not complete, or their answers are not taken.
type connections struct {
	limits   server.Config
	counters *Counters
	busy     func()
	tick     atomic.Uint32 // sweeps so far
	asked    uint64        // Counters.Requests at the last sweep; used by the sweep alone

	mu   sync.Mutex
	open map[*conn]struct{}

	sharing    sync.Mutex // guards what follows, and each conn's holding; taken after a conn's mu
	share      *server.Share
	remains    int64      // bytes of connections that have ended
	waiting    int        // connections whose calls wait for remains
	freed      *sync.Cond // some of them, or a connection has ended
	collecting bool
}

const (
	sweepPause = 200 * time.Millisecond
	stallTime  = 30 * time.Second
	stallTicks = uint32(stallTime / sweepPause)
	busyCalls  = 200                         // requests between two sweeps
	callSize   = 16 << 10                    // bytes: what grpc-go keeps for a call; a stack, or 1,000 ids
	frameSize  = 48                          // bytes: what grpc-go keeps for a frame of a request, beside its payload
	leftShare  = 2                           // one part in so many of the budget's limit is for remains
	sendBuffer = 64 << 10                    // bytes: what the kernel takes of answers for a client that does not
	resetBurst = maxStreams                  // calls that a client may take back at once on a connection,
	resetPause = 10 * time.Millisecond       // and each time once more
	mostBytes  = (1 + frameSize) * 128 << 10 // of a request: grpc-go receives 64 KiB ahead of the handler
)

// collectPause is between two collections of remains. They take a part of the processor.
const collectPause = 50 * time.Millisecond

// longestPause is for how long a connection is not read because of the calls that its client took back.
const longestPause = 10 * time.Second

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
	left    chan struct{}  // closed with the connection
	working atomic.Int32   // handlers
	holding server.Holding // guarded by connections.sharing
	gone    bool           // it is closed, and holds nothing any more; guarded by connections.sharing

	mu    sync.Mutex
	calls map[uint32]call // by stream
	last  uint32          // the newest stream
	bytes int64           // what the calls hold
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
	n := &conn{Conn: c, conns: cs, calls: make(map[uint32]call), left: make(chan struct{})}
	n.holding.Owner, n.holding.Peer = n, peers.Of(server.PeerOf(c.RemoteAddr()))
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetWriteBuffer(sendBuffer) // the kernel would take some megabytes, and a container pays for them
	}
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
		close(c.left)
		c.conns.mu.Lock()
		delete(c.conns.open, c)
		c.conns.mu.Unlock()
		c.leave()
	}
	return c.Conn.Close()
}

// leave takes what c holds out of the budget. It remains until nothing refers to c any more: every call
// does, from before its handler begins until after it has ended.
func (c *conn) leave() {
	cs := c.conns
	cs.sharing.Lock()
	defer cs.sharing.Unlock()
	c.gone = true
	cs.freed.Broadcast()
	if bytes := c.holding.Size; bytes > 0 {
		cs.share.Set(&c.holding, 0)
		cs.remains += bytes
		runtime.AddCleanup(c, cs.free, bytes)
	}
}

// free is called when bytes of the remains have been collected.
func (cs *connections) free(bytes int64) {
	cs.sharing.Lock()
	defer cs.sharing.Unlock()
	cs.remains -= bytes
	cs.freed.Broadcast()
}

// full reports whether too much remains of connections for new calls. sharing is held.
func (cs *connections) full() bool {
	limit := cs.share.Limit()
	return limit > 0 && cs.remains > limit/leftShare
}

// room waits until there is room for what c holds beside the remains. It returns false if c has ended.
func (c *conn) room() bool {
	cs := c.conns
	cs.sharing.Lock()
	defer cs.sharing.Unlock()
	for cs.full() && !c.gone {
		if !cs.collecting {
			cs.collecting = true
			go cs.collect()
		}
		cs.waiting++
		cs.freed.Wait()
		cs.waiting--
	}
	return !c.gone
}

// collect has Go collect what remains, while calls wait for that. Without new ones there may be little
// other garbage, and no collection for minutes.
func (cs *connections) collect() {
	for more := true; more; {
		runtime.GC()
		time.Sleep(collectPause)
		cs.sharing.Lock()
		more = cs.waiting > 0 && cs.full()
		cs.collecting = more
		cs.sharing.Unlock()
	}
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
func (c *conn) begin() *conn {
	c.working.Add(1)
	return c
}
func (c *conn) end() { c.working.Add(-1) }

// A framed sees what grpc-go reads and writes: HTTP/2's frames.
type framed struct {
	net.Conn
	*conn
	in, out frames
	free    time.Time // when the whole burst of resets is available again
}

func (f *framed) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.mu.Lock()
	before, resets := f.bytes, 0
	for rest, ok := f.in.next(b[:n]); ok; rest, ok = f.in.next(rest) {
		switch stream := f.in.stream(); f.in.kind() {
		case frameHeaders:
			f.began(stream)
		case frameData:
			f.got(stream, f.in.skip+frameSize)
		case frameReset:
			f.ended(stream)
			resets++
		}
	}
	more := f.bytes > before
	f.holds(before)
	if more && !f.room() {
		return 0, net.ErrClosed // the calls have not begun, and take no memory
	}
	if resets > 0 {
		f.pause(resets)
	}
	return n, err
}

// pause delays what a client sends that takes back more calls than it may. It could begin and take back
// any number otherwise, as only 250 are open at a time, and others would wait for the processor. Closing the
// connection would help less: the next one would have a whole burst.
func (f *framed) pause(resets int) {
	now := time.Now()
	if f.free.Before(now) {
		f.free = now
	}
	f.free = f.free.Add(time.Duration(resets) * resetPause)
	late := min(f.free.Sub(now)-resetBurst*resetPause, longestPause)
	if late <= 0 {
		return
	}
	wait := time.NewTimer(late)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-f.left:
	}
}

func (f *framed) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	f.mu.Lock()
	before := f.bytes
	for rest, ok := f.out.next(b[:n]); ok; rest, ok = f.out.next(rest) {
		if f.out.kind() == frameReset || f.out.kind() == frameHeaders && f.out.endStream() {
			f.ended(f.out.stream())
		}
	}
	f.holds(before)
	return n, err
}

func (f *framed) Close() error { return f.Conn.Close() }

// began notes a new call. Streams only grow: other headers are a request's trailers. c.mu is held.
func (c *conn) began(stream uint32) {
	if stream > c.last {
		c.last = stream
		c.calls[stream] = call{since: c.conns.tick.Load()}
		c.bytes += callSize
	}
}

// got notes a part of a request. c.mu is held.
func (c *conn) got(stream uint32, bytes int) {
	if one, ok := c.calls[stream]; ok {
		more := min(uint32(bytes), mostBytes-one.received)
		one.received += more
		c.calls[stream] = one
		c.bytes += int64(more)
	}
}

// ended notes the end of a call. c.mu is held.
func (c *conn) ended(stream uint32) {
	if one, ok := c.calls[stream]; ok {
		delete(c.calls, stream)
		c.bytes -= callSize + int64(one.received)
	}
}

// holds tells the budget what c holds, if that has changed, and closes those that hold too much. It
// unlocks c.mu.
func (c *conn) holds(before int64) {
	if c.bytes == before {
		c.mu.Unlock()
		return
	}
	cs, over := c.conns, false
	cs.sharing.Lock()
	if !c.gone {
		cs.share.Set(&c.holding, c.bytes)
		over = cs.share.Over()
	}
	cs.sharing.Unlock()
	c.mu.Unlock()
	if over {
		cs.close()
	}
}

// stalled returns how many calls have lasted for stallTime.
func (c *conn) stalled(tick uint32) (n int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		if tick-one.since > stallTicks {
			n++
		}
	}
	return n
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
	return func() {
		close(ended)
		<-done
	}
}

// leave gives back what connections held. All of them are closed.
func (cs *connections) leave() {
	cs.sharing.Lock()
	defer cs.sharing.Unlock()
	cs.share.Leave()
}

// look looks at all connections.
func (cs *connections) look(tick uint32) {
	asked := cs.counters.Requests.Load()
	if asked-cs.asked > busyCalls && cs.busy != nil {
		cs.busy()
	}
	cs.asked = asked
	var stalled []*conn
	cs.mu.Lock()
	for c := range cs.open {
		if c.stalled(tick) > c.working.Load() {
			stalled = append(stalled, c)
		}
	}
	cs.mu.Unlock()
	for _, c := range stalled {
		cs.counters.Stalled.Add(1)
		c.Close()
	}
	cs.sharing.Lock()
	cs.share.Flush()
	cs.sharing.Unlock()
	cs.close()
}

// close closes the connections that hold the most, while the budget is used up.
func (cs *connections) close() {
	for {
		cs.sharing.Lock()
		h := cs.share.Biggest()
		cs.sharing.Unlock()
		if h == nil {
			return
		}
		if c := h.Owner.(*conn); !c.closed.Load() {
			cs.share.TellClosed(cs.limits.Log)
			c.Close()
		}
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
