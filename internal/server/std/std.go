// Package std is the portable engine, built on package net and goroutines.
package std

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// handshakeTimeout is how long a client may take for the TLS handshake.
const handshakeTimeout = 10 * time.Second

// Engine is the portable engine: one goroutine per connection, with the Go runtime's poller
// underneath. It runs everywhere, takes any net.Listener, and supports TLS. Serve may be called
// several times at once.
//
// An idle connection costs its goroutine, the runtime's descriptor and smallBuffer bytes. Larger
// buffers are borrowed from pools while the connection is active.
type Engine struct {
	server.Config
	Handshake       time.Duration
	inputs, outputs sync.Pool // *[]byte of bigBuffer bytes; *output
	lot             lot

	moving sync.Mutex // held by Freeze, Thaw and Adopt, and when a group begins or drains
	groups []*group   // those that serve and do not drain; guarded by moving
}

// New makes the portable engine.
func New(c server.Config) *Engine { return &Engine{Config: c, Handshake: handshakeTimeout} }

// Name returns "net".
func (e *Engine) Name() string { return "net" }

// Serve implements Engine. If a listener fails for good, it drains the connections and returns an
// error.
func (e *Engine) Serve(ctx context.Context, ports []server.Port) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lns := server.Listeners(ports)
	removeFiles := server.TakeSocketFiles(ports)
	g := &group{Engine: e, ctx: ctx, ports: ports, conns: make(map[*conn]struct{})}
	g.share = e.Share(func() { go g.relieve() }, func() {})
	defer g.share.Leave()

	var accepting sync.WaitGroup
	failures := make(chan error, len(lns))
	for range lns {
		g.acceptors = append(g.acceptors, new(sleeper))
	}
	e.moving.Lock()
	e.groups = append(e.groups, g)
	e.moving.Unlock()
	sleepers := g.acceptors
	for i := range ports {
		for loop, ln := range ports[i].Listeners {
			s := sleepers[0]
			sleepers = sleepers[1:]
			accepting.Go(func() {
				if err := g.accept(s, ln, &ports[i], loop); err != nil {
					failures <- err
					cancel()
				}
			})
		}
	}
	if e.IdleTimeout > 0 {
		sweeper := time.NewTicker(server.SweepPeriod(e.IdleTimeout))
		defer sweeper.Stop()
		done := make(chan struct{})
		defer close(done)
		go g.sweepIdle(sweeper.C, done)
	}
	<-ctx.Done()
	if !g.drains() {
		removeFiles()
	}
	for _, ln := range lns {
		setDeadline(ln, time.Now().Add(server.DrainQuiet))
	}
	accepting.Wait()
	g.drain()
	close(failures)
	return <-failures
}

// A group is one call of Serve.
type group struct {
	*Engine
	freezer
	ports    []server.Port
	next     int // the loop of a port that adopts next; guarded by Engine.moving
	ctx      context.Context
	draining atomic.Bool
	forced   atomic.Bool   // DrainTimeout is over
	sweep    atomic.Uint32 // number of the last sweep for idle connections
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]struct{}

	sharing sync.Mutex    // guards share
	share   *server.Share // share of the daemon's budget
}

// accept serves ln until the context ends, then whatever is left in its backlog. It closes ln.
func (g *group) accept(s *sleeper, ln net.Listener, p *server.Port, loop int) error {
	defer ln.Close()
	defer g.rest(s)
	var failures server.Backoff
	var last time.Time // when to stop even if new connections keep coming
	for {
		if !g.hold(s) {
			return nil
		}
		c, err := ln.Accept()
		if err == nil {
			failures.Succeeded(&g.Config)
			g.start(c, p, loop)
		}
		stopping := g.draining.Load()
		empty := err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || !server.HasInput(ln))
		switch {
		case stopping && last.IsZero():
			last = time.Now().Add(g.DrainTimeout)
		case stopping && (empty || time.Now().After(last)):
			return nil
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			setDeadline(ln, time.Time{}) // it was Freeze's
			stopping = g.draining.Load()
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			g.rest(s)
			select {
			case <-time.After(failures.Failed(&g.Config, err)):
			case <-g.ctx.Done():
			}
			s.rests.Store(false)
		}
		if stopping && !setDeadline(ln, time.Now().Add(server.DrainQuiet)) {
			return nil
		}
	}
}

func setDeadline(ln net.Listener, t time.Time) bool {
	d, ok := ln.(interface{ SetDeadline(time.Time) error })
	if !ok || d.SetDeadline(t) != nil {
		ln.Close() // the only way to wake Accept
		return false
	}
	return true
}

func (g *group) start(nc net.Conn, p *server.Port, loop int) {
	if !g.Admit() {
		refusal := p.Refusal
		if p.TLS != nil {
			refusal = server.TLSAlert
		}
		nc.Write(refusal) // the socket buffer is empty, so this does not block
		nc.Close()
		return
	}
	if p.TLS != nil {
		nc = p.TLS.Server(nc) // nothing uses the plain connection after this
	}
	asked := g.newAsked()
	g.add(g.newConn(nc, p, p.Open(loop, asked), loop, asked))
}

// newAsked returns where a connection notes which names it asks for. Those of a loop run at the same time.
func (g *group) newAsked() *latency.Asked {
	if g.Asked == nil {
		return nil
	}
	return new(latency.Asked)
}

func (g *group) newConn(nc net.Conn, p *server.Port, s server.Session, loop int, asked *latency.Asked) *conn {
	c := &conn{Conn: nc, group: g, port: p, session: s, latency: g.Sampler(loop)}
	c.latency.Asked = asked
	if p.Peers {
		s.(server.PeerSession).Peer(server.PeerOf(nc.RemoteAddr()))
	}
	c.raw = rawOf(nc)
	c.buf = c.small[:]
	c.last.Store(g.sweep.Load())
	return c
}

// add begins to serve c.
func (g *group) add(c *conn) {
	g.mu.Lock()
	g.conns[c] = struct{}{}
	g.mu.Unlock()
	g.serving.Go(c.serve)
}

func (g *group) finished(c *conn) {
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
	if c.holding != nil {
		g.sharing.Lock()
		g.share.Set(c.holding, 0)
		g.share.Flush()
		g.sharing.Unlock()
	}
	c.latency.Flush()
	c.Close()
	g.Counters.Current.Add(-1)
	g.rest(&c.sleeper)
}

// sweepIdle wakes connections that have been idle too long; they close themselves. Setting a
// deadline for each request would cost more.
func (g *group) sweepIdle(tick <-chan time.Time, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-tick:
		}
		now := g.sweep.Add(1)
		g.mu.Lock()
		for c := range g.conns {
			if c.parked.Load() {
				c.last.Store(now) // a client that waits for its answer is not idle
			} else if server.Idle(now, c.last.Load()) {
				c.SetDeadline(time.Unix(1, 0))
			}
		}
		g.mu.Unlock()
	}
}

// drain waits, for at most DrainTimeout, until every connection has been answered and closed.
func (g *group) drain() {
	g.mu.Lock()
	for c := range g.conns {
		c.SetReadDeadline(time.Unix(1, 0)) // wake it
	}
	g.mu.Unlock()
	force := time.AfterFunc(g.DrainTimeout, func() {
		g.forced.Store(true)
		g.Wake()
		g.mu.Lock()
		defer g.mu.Unlock()
		for c := range g.conns {
			c.Close()
		}
	})
	g.serving.Wait()
	force.Stop()
}
