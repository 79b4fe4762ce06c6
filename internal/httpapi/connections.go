package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

// connections keeps the connections of a server to a limit of their own, so that HTTP takes none
// of the memcached port's, nor the other way round.
//
// A connection takes one of max places with its first request, and keeps it until it ends. Where
// all are taken, it gets the place of the one that has been idle for longest, if that is minIdle or
// more; else of one that is idle, or whose request has been at work for as long, if the peer of that has more of them
// than its own: who asks for ever, or does not read answers, keeps nobody else away. If there is none, health and
// readiness are answered all the same, everything else is refused, and the connection is closed: that is what Reserve
// more connections are for.
//
// A newcomer that finds those taken as well gets the place of a connection that has yet to send a whole
// request, if the peer of that has more of them than its own: half requests from one address do not keep the
// health checks of another away. Otherwise it waits in the listener's queue, since a client that
// talks gives its own back at once. If that fails, it is refused; so are all after it, unread, until a
// connection ends: thousands that say nothing must not keep those behind them waiting.
type connections struct {
	max      int // 0 = no limit
	maxBody  int64
	counters *Counters
	ended    chan struct{} // a connection has ended since a newcomer looked
	refusing chan struct{} // holds a token for each connection that is being refused

	mu        sync.Mutex
	open      map[*connection]bool // that were admitted and not removed
	placed    int                  // those of them that have a place
	stuck     bool                 // a newcomer waited in vain, and no connection has ended since
	close     []func() error       // the listeners
	closed    bool                 // they are
	accepting int                  // listeners that may return another connection
	local     bool                 // a listener is on loopback
	names     []string             // see knows; nil = all

	busy     func()        // see Config.Busy
	requests atomic.Uint64 // of connections that were not evicted
	counted  time.Time     // when their number last was a multiple of busyRequests
	told     time.Time     // when busy was called
}

// A connection is one that was admitted. Its requests, one after another, change its state without a lock.
type connection struct {
	*lazy
	peer   peers.Peer
	known  string // the last host that it asked for and that the server knows; only its requests use it
	placed bool   // it has a place; only its requests change that, and hold connections.mu then
	phase  atomic.Int64
}

// A phase of a connection is its state, in the last two bits, and when that began, in ns of latency.Clock: who makes
// room takes a connection that still is as it was seen.
type phase int64

// The states of a connection.
const (
	mute   = iota // its first request is not complete, with the body
	atWork        // the handler has a request, or the client has yet to take its answer
	idle          // between two requests
	gone          // it was removed
)

func beginning(state phase) phase   { return phase(latency.Clock())<<2 | state }
func (p phase) in(state phase) bool { return p&3 == state }

// rested reports whether the phase has lasted so long that the connection may be closed to make room.
func (p phase) rested() bool { return latency.Clock()-time.Duration(p>>2) >= minIdle }

// now returns the phase.
func (n *connection) now() phase { return phase(n.phase.Load()) }

// enter begins a phase and returns true, unless the connection is gone.
func (n *connection) enter(p phase) bool {
	if phase(n.phase.Swap(int64(p))).in(gone) {
		n.phase.Store(gone) // it is no longer open, so nobody has seen p
		return false
	}
	return true
}

const (
	// Reserve is how many connections may be open above the limit, so that health checks get through.
	Reserve = 16
	// Refusing is how many more may be open because they are being refused.
	Refusing = 16

	// minIdle is how long a connection is silent before it may be closed to make room, unless its peer has more of them
	// than who comes. Before that, a request may be on its way, or in the socket and not read yet. It is also how long a
	// request may be at work, or its answer be on its way, before its connection may.
	minIdle = time.Second
	// patience is how long a newcomer waits for the end of another connection.
	patience = 100 * time.Millisecond
	// settleTime is how long the first request of a connection may take when the server ends.
	settleTime = 100 * time.Millisecond
	// maxBody is the most bytes of a request's body. They are kept while the rest is on its way.
	maxBody = 16 << 10
	// refusalTime bounds each half of a refusal: until the request comes, and until the answer is taken.
	refusalTime = 250 * time.Millisecond

	// busy is told if busyRequests come within busyTime, at most once in busyPause.
	busyRequests = 256
	busyTime     = 256 * time.Millisecond
	busyPause    = 200 * time.Millisecond
)

func newConnections(limit int, n *Counters) *connections {
	return &connections{
		max: limit, maxBody: maxBody, counters: n, open: map[*connection]bool{},
		ended: make(chan struct{}, 1), refusing: make(chan struct{}, Refusing),
	}
}

// A listener returns only connections that are admitted.
type listener struct {
	net.Listener
	conns *connections
	close func() error // once
}

func (l listener) Close() error { return l.close() }

func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil && l.conns.accepted() {
			return nil, http.ErrServerClosed
		}
		if err != nil {
			return nil, err
		}
		if admitted := l.conns.admit(conn); admitted != nil {
			return admitted, nil
		}
		l.conns.refuse(conn)
	}
}

// admit takes a new connection in, or returns nil if there is no room for one. It may wait for that.
func (c *connections) admit(conn net.Conn) *connection {
	p := peers.At(conn.RemoteAddr())
	if !c.hasRoom(p) && !c.waitForRoom(p) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &connection{lazy: newLazy(conn), peer: p}
	n.enter(beginning(mute))
	c.open[n] = true
	c.counters.Connections.Store(int64(len(c.open)))
	return n
}

// settle closes the listeners, and waits until each connection has asked something, for settleTime at
// most. An http.Server closes a connection without an answer if it reads the first request after Shutdown.
func (c *connections) settle(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	for _, end := range c.close {
		end()
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for tick := time.NewTicker(time.Millisecond); ; {
		c.mu.Lock()
		first, _ := c.oldest(mute, nil)
		settled := c.accepting == 0 && first == nil
		c.mu.Unlock()
		if settled {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// accepted says whether settle has closed the listeners. If so, one of them has returned its last connection.
func (c *connections) accepted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.accepting--
	}
	return c.closed
}

// oldest returns the connection that has been in a state for longest, of those that of picks, or of all if of is nil;
// nil = there is none. It looks at all that are open: nothing that happens for each request keeps them in order. c.mu
// is held.
func (c *connections) oldest(state phase, of func(*connection) bool) (first *connection, began phase) {
	for n := range c.open {
		p := n.now()
		if p.in(state) && (of == nil || of(n)) && (first == nil || p < began) {
			first, began = n, p
		}
	}
	return first, began
}

// hasRoom says whether one more connection of a peer may be open, and makes room if it can.
func (c *connections) hasRoom(p peers.Peer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.max == 0 || len(c.open) < c.max+Reserve || c.evictIdle(p) || c.evictMute(p)
}

// evictMute closes the oldest mute connection of the peer that has most of them, for a newcomer of peer p:
// if it has been mute for long enough, or if its peer then still has as many as p. c.mu is held.
func (c *connections) evictMute(p peers.Peer) bool {
	first, began, spare := c.greediest(mute, p)
	return first != nil && (spare > 1 || began.rested()) && c.evict(first, began)
}

// evictSlow closes the oldest connection at work that has a place, of the peer that has most of them, for one of peer p
// that is at work and has none: if it has been at work for long enough, and its peer then still has as many as p. c.mu
// is held.
func (c *connections) evictSlow(p peers.Peer) bool {
	first, began, spare := c.greediest(atWork, p)
	return first != nil && spare > 1 && began.rested() && c.evict(first, began)
}

// greediest returns the oldest connection in a state of the peer that has most of them, and how many more that has than
// peer p. Of those at work only who has a place counts. c.mu is held.
func (c *connections) greediest(state phase, p peers.Peer) (first *connection, began phase, spare int) {
	held, most := map[peers.Peer]int{}, p
	counts := func(n *connection) bool { return state != atWork || n.placed }
	for n := range c.open {
		if n.now().in(state) && counts(n) {
			held[n.peer]++
		}
	}
	for peer, n := range held {
		if n > held[most] {
			most = peer
		}
	}
	first, began = c.oldest(state, func(n *connection) bool { return n.peer == most && counts(n) })
	return first, began, held[most] - held[p]
}

func (c *connections) waitForRoom(p peers.Peer) bool {
	c.mu.Lock()
	stuck := c.stuck
	c.mu.Unlock()
	if stuck {
		return false
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-c.ended:
			if c.hasRoom(p) {
				return true
			}
		case <-late.C:
			c.mu.Lock()
			c.stuck = true
			c.mu.Unlock()
			return c.hasRoom(p)
		}
	}
}

// evictIdle closes the connection that has been idle for longest, if that is long enough; or else the oldest idle one
// of the peer that has most of them, if that then still has as many as p. c.mu is held.
func (c *connections) evictIdle(p peers.Peer) bool {
	if first, began := c.oldest(idle, nil); first != nil && began.rested() {
		return c.evict(first, began)
	}
	first, began, spare := c.greediest(idle, p)
	return first != nil && spare > 1 && c.evict(first, began)
}

// evict closes a connection to make room, if it is still in a phase. c.mu is held.
func (c *connections) evict(n *connection, p phase) bool {
	if !n.phase.CompareAndSwap(int64(p), gone) {
		return false
	}
	c.remove(n)
	n.Close()
	c.counters.ConnectionsEvicted.Add(1)
	return true
}

// remove forgets a connection. c.mu is held.
func (c *connections) remove(n *connection) {
	delete(c.open, n)
	if n.placed {
		c.placed--
	}
	c.counters.Connections.Store(int64(len(c.open)))
}

// changed is the server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	n, admitted := conn.(*connection)
	switch {
	case !admitted:
	case state == http.StateIdle:
		n.enter(beginning(idle))
	case state == http.StateClosed || state == http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		if !n.enter(gone) { // it was evicted
			return
		}
		c.remove(n)
		c.stuck = false
		select {
		case c.ended <- struct{}{}:
		default:
		}
	}
}

// place says whether the connection of a request has a place, and gives it one if there is one.
func (c *connections) place(n *connection) bool {
	if !n.enter(beginning(atWork)) { // it was evicted
		return false
	}
	if c.requests.Add(1)%busyRequests == 0 && c.busy != nil {
		c.count()
	}
	if n.placed {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.max > 0 && c.placed >= c.max && !c.evictIdle(n.peer) && !c.evictSlow(n.peer) {
		return false
	}
	n.placed = true
	c.placed++
	return true
}

// count is called after each busyRequests requests.
func (c *connections) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.counted) < busyTime && now.Sub(c.told) >= busyPause {
		c.told = now
		c.busy()
	}
	c.counted = now
}

type connectionKey struct{}

// know is the server's ConnContext: requests know their connection.
func (c *connections) know(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// knows reports whether a request may be for a host. Where the port is on loopback, a page of another site could
// otherwise read it: its name leads to an address of loopback once it is loaded, and to the browser both are one
// site. Programs of old send no host.
func (c *connections) knows(host string) bool {
	c.mu.Lock()
	names, all := c.names, !c.local || c.names == nil
	c.mu.Unlock()
	if strings.Contains(host, ":") { // else it would cost an error
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil || all || host == "" || strings.EqualFold(host, "localhost") {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// limit answers a request by h if its connection has a place, or if it asks for health.
func (c *connections) limit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && !c.readBody(w, r) {
			return
		}
		n, ok := r.Context().Value(connectionKey{}).(*connection)
		if ok && !c.place(n) {
			w.Header().Set("Connection", "close")
			if r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
				c.counters.ConnectionsRefused.Add(1)
				w.Header().Set("Cache-Control", "no-store")
				w.Header().Set("Retry-After", "1")
				http.Error(w, "too many open connections", http.StatusServiceUnavailable)
				return
			}
		}
		switch {
		case ok && n.known != "" && n.known == r.Host:
		case c.knows(r.Host):
			if ok {
				n.known = r.Host
			}
		default:
			http.Error(w, "this port is on loopback, and answers only requests for an IP address, localhost or "+
				"this host's name; -http-host allows another name", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// readBody reads the body of a request, so that no connection is at work that waits for one. It reports whether that is
// whole; if not, the request is answered.
func (c *connections) readBody(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, c.maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the body of the request: "+err.Error(), status)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// refusal is what a connection is told that was not admitted.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nCache-Control: no-store\r\nRetry-After: 1\r\nConnection: " +
	"close\r\nContent-Length: 0\r\n\r\n"

// refuse tells a connection that it was not admitted, and closes it. It does not wait. Where too
// many are being told already, it only closes.
func (c *connections) refuse(conn net.Conn) {
	c.counters.ConnectionsRefused.Add(1)
	select {
	case c.refusing <- struct{}{}:
		go func() {
			turnAway(conn)
			<-c.refusing
		}()
	default:
		conn.Close()
	}
}

// turnAway answers with the refusal. It reads before that, since clients take an answer to no
// request for a mistake, and after that, since to close with something unread resets the
// connection, which may cost the client the answer.
func turnAway(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(refusalTime))
	conn.Read(make([]byte, 4<<10))
	conn.SetDeadline(time.Now().Add(refusalTime))
	io.WriteString(conn, refusal)
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	io.Copy(io.Discard, conn)
}
