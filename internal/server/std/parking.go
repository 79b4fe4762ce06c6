package std

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A lot wakes the goroutines of connections whose sessions wait. The zero value is ready.
type lot struct {
	parked  atomic.Int64 // goroutines in it
	mu      sync.Mutex
	woken   chan struct{} // closed by the next wake
	polling bool          // a wake will follow because ParkPause is over
}

// lookPause is the least time between two looks at whether a client that waits has gone, and before the
// first: most wait for less, and a look is a system call.
const lookPause = 10 * time.Millisecond

// next returns a channel that the next wake closes, at the latest after pause.
func (l *lot) next(pause time.Duration) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.woken == nil {
		l.woken = make(chan struct{})
	}
	if !l.polling {
		l.polling = true
		time.AfterFunc(pause, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.polling = false
			l.wake()
		})
	}
	return l.woken
}

// wake wakes all. The caller holds the lock.
func (l *lot) wake() {
	if l.woken != nil {
		close(l.woken)
		l.woken = nil
	}
}

// Hold implements server.Engine: there are no event loops.
func (e *Engine) Hold() {}

// Wake implements server.Engine.
func (e *Engine) Wake() {
	if e.lot.parked.Load() > 0 {
		e.lot.mu.Lock()
		defer e.lot.mu.Unlock()
		e.lot.wake()
	}
}

// park is called when the session must wait. It asks the session again until that has an answer or
// another error, and returns what answer returned last; or ok = false when the connection must be
// closed.
//
// No wake-up is lost: before each question c is already counted in the lot, and has the channel that
// the next Wake closes. A Wake before that was for something that the session finds when it is asked
// now.
func (c *conn) park() (ok bool, err error) {
	g := c.group
	g.lot.parked.Add(1)
	defer func() {
		c.waits = 0
		c.latency.Waits()
		g.lot.parked.Add(-1)
	}()
	present := presence(c.Conn)
	var look time.Duration // latency.Clock when present is asked next; 0 = not yet known
	for {
		if c.waits == 0 {
			c.waits = latency.Clock()
		}
		woken := g.lot.next(g.ParkPauses())
		if ok, err = c.answer(); !ok || err == nil || !server.Waits(err) {
			return ok, err
		}
		if g.forced.Load() || // where presence cannot see that the connection is closed
			c.doomed.Load() && !c.spared() {
			return false, nil
		}
		switch now := latency.Clock(); {
		case look != 0 && now < look:
		case look != 0 && !present():
			return false, nil
		default:
			look = now + lookPause
		}
		c.parked.Store(true) // not while it is answered: a client that does not take the answer is idle
		<-woken
		c.touch() // however often it is woken between two sweeps
		c.parked.Store(false)
	}
}

// presence returns a function that reports whether the client can still take an answer.
func presence(c net.Conn) func() bool {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // encrypted
		c = t.NetConn()
	}
	raw := rawOf(c)
	if raw == nil {
		return func() bool { return true }
	}
	gone := false
	look := func(socket uintptr) { gone = hungUp(socket) }
	return func() bool { return raw.Control(look) == nil && !gone }
}
