package std

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A sleeper is a goroutine that Freeze waits for: one that accepts, or that of a connection.
//
// It sets rests, then looks at group.frozen; Freeze sets frozen, then looks at rests. So if the sleeper
// finds that nothing is frozen, Freeze finds that it does not rest, and waits for it. For the same
// reason a sleeper that ends its rest looks at frozen before it accepts or calls a session.
type sleeper struct {
	rests   atomic.Bool // it neither accepts nor calls a session
	awaited uint32      // Freeze of this number waits for it; guarded by group.mu
}

// A freezer is the part of a group that Freeze uses.
type freezer struct {
	frozen    atomic.Bool    // set under mu
	acceptors []*sleeper     // one per listener; not changed while the group serves
	thawed    chan struct{}  // closed when the sleepers may look again
	number    uint32         // of the present Freeze
	missing   int            // sleepers that it waits for
	settled   chan struct{}  // closed when missing is 0 again
	moved     []server.Moved // what was given away
}

// past is a deadline that wakes whoever reads or writes.
var past = time.Unix(1, 0)

// Freeze implements server.Mover.
func (e *Engine) Freeze(ctx context.Context) (moved []server.Moved, err error) {
	e.moving.Lock()
	defer e.moving.Unlock()
	switch {
	case len(e.groups) == 0:
		return nil, server.ErrIdle
	case e.groups[0].frozen.Load():
		return nil, server.ErrFrozen
	}
	for i, g := range e.groups {
		given, err := g.freeze(ctx)
		if moved = append(moved, given...); err != nil {
			e.thaw(e.groups[:i+1], moved)
			return nil, err
		}
	}
	return moved, nil
}

// Thaw implements server.Mover.
func (e *Engine) Thaw(moved []server.Moved) error {
	e.moving.Lock()
	defer e.moving.Unlock()
	switch {
	case len(e.groups) == 0:
		return server.ErrIdle
	case !e.groups[0].frozen.Load():
		return server.ErrThawed
	}
	e.thaw(e.groups, moved)
	return nil
}

func (e *Engine) thaw(groups []*group, moved []server.Moved) {
	for _, g := range groups {
		g.mu.Lock()
		g.frozen.Store(false)
		close(g.thawed)
		moved, g.moved = append(moved, g.moved...), nil // of those that were late
		g.mu.Unlock()
	}
	for _, m := range moved {
		if err := e.adopt(m); err != nil {
			closeSocket(m.FD)
			e.Log.Warn("a connection is closed: its session cannot go on", "port", m.Port, "error", err)
		}
	}
}

// Adopt implements server.Mover.
func (e *Engine) Adopt(m server.Moved) error {
	e.moving.Lock()
	defer e.moving.Unlock()
	switch {
	case len(e.groups) == 0:
		return server.ErrIdle
	case e.groups[0].frozen.Load():
		return server.ErrFrozen
	}
	return e.adopt(m)
}

func (e *Engine) adopt(m server.Moved) error {
	for _, g := range e.groups {
		for i := range g.ports {
			if p := &g.ports[i]; p.Name == m.Port && p.TLS == nil {
				return g.adopt(p, m)
			}
		}
	}
	return fmt.Errorf("server: no plain port has the name %q", m.Port)
}

func (g *group) adopt(p *server.Port, m server.Moved) error {
	loop := g.next % max(len(p.Listeners), 1)
	g.next++
	asked := g.newAsked()
	session, err := p.Reopen(loop, asked, m.State)
	if err != nil {
		return err
	}
	nc, err := connOf(m.FD)
	if err != nil {
		return err
	}
	closeSocket(m.FD) // nc has its own descriptor
	c := g.newConn(nc, p, session, loop, asked)
	c.more, c.out = true, m.Out
	if c.len = len(m.In); c.len >= smallBuffer {
		c.buf = make([]byte, 2*c.len)
	}
	copy(c.buf, m.In)
	c.account(0)
	g.Counters.Current.Add(1)
	g.add(c)
	return nil
}

// connOf makes a connection of a descriptor, which stays open.
func connOf(fd int) (net.Conn, error) {
	own, err := duplicate(fd)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "")
	defer f.Close()
	return net.FileConn(f)
}

// drains forbids Freeze, Thaw and Adopt from now on, and lets no sleeper rest. It reports whether the
// group is frozen: then another process may serve its ports.
func (g *group) drains() (wasFrozen bool) {
	g.moving.Lock()
	defer g.moving.Unlock()
	g.groups = slices.DeleteFunc(g.groups, func(other *group) bool { return other == g })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining.Store(true)
	if wasFrozen = g.frozen.Load(); wasFrozen {
		close(g.thawed)
	}
	return wasFrozen
}

// freeze stops the group. Whatever it returns, moved is what was given away.
func (g *group) freeze(ctx context.Context) (moved []server.Moved, err error) {
	g.mu.Lock()
	g.frozen.Store(true)
	g.thawed, g.moved = make(chan struct{}), nil
	g.number++
	for _, s := range g.acceptors {
		g.expect(s)
	}
	g.mu.Unlock()
	for _, ln := range server.Listeners(g.ports) {
		if d, ok := ln.(interface{ SetDeadline(time.Time) error }); !ok {
			err = errors.Join(err, fmt.Errorf("server: a listener of type %T cannot stop accepting", ln))
		} else {
			d.SetDeadline(past)
		}
	}
	if err == nil {
		err = g.settle(ctx) // no more connections come
	}
	if err == nil {
		g.mu.Lock()
		for c := range g.conns {
			if !g.expect(&c.sleeper) {
				continue
			}
			if _, encrypted := c.Conn.(handshaker); encrypted { // its last requests may be on their way
				c.SetReadDeadline(time.Now().Add(server.DrainQuiet))
			} else {
				c.SetDeadline(past)
			}
		}
		g.mu.Unlock()
		g.lot.mu.Lock()
		g.lot.wake()
		g.lot.mu.Unlock()
		err = g.settle(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing, g.settled, moved, g.moved = 0, nil, g.moved, nil
	g.number++ // if it gave up, those that come now are awaited no longer
	return moved, err
}

// expect makes Freeze wait for a sleeper, unless it rests. The caller holds mu.
func (g *group) expect(s *sleeper) bool {
	if s.rests.Load() {
		return false
	}
	s.awaited = g.number
	g.missing++
	return true
}

// settle waits until nobody is awaited.
func (g *group) settle(ctx context.Context) error {
	g.mu.Lock()
	if g.missing == 0 {
		g.mu.Unlock()
		return ctx.Err()
	}
	settled := make(chan struct{})
	g.settled = settled
	g.mu.Unlock()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrive tells Freeze that a sleeper rests. The caller holds mu.
func (g *group) arrive(s *sleeper) {
	if s.awaited != g.number {
		return
	}
	s.awaited = 0
	if g.missing--; g.missing == 0 && g.settled != nil {
		close(g.settled)
		g.settled = nil
	}
}

// rest begins a rest that Freeze must not end: something that cannot be woken, or the end.
func (g *group) rest(s *sleeper) {
	s.rests.Store(true)
	if g.frozen.Load() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.arrive(s)
	}
}

// hold lets a sleeper rest while the group is frozen. It returns false if it must end without having
// accepted or called a session again.
func (g *group) hold(s *sleeper) (goesOn bool) {
	for g.frozen.Load() {
		g.mu.Lock()
		if !g.frozen.Load() || g.draining.Load() {
			g.mu.Unlock()
			return !g.frozen.Load()
		}
		thawed := g.thawed
		s.rests.Store(true)
		g.arrive(s)
		g.mu.Unlock()
		<-thawed
		s.rests.Store(false)
	}
	return true
}

// yield is called when something has interrupted c: while the group is frozen it moves, or rests. It
// returns false if c is to be closed here.
func (c *conn) yield() (goesOn bool) {
	g := c.group
	if !g.frozen.Load() {
		return true
	}
	g.mu.Lock()
	if g.frozen.Load() && !g.draining.Load() {
		if m, ok := c.pack(); ok {
			g.moved = append(g.moved, m)
			g.mu.Unlock()
			return false
		}
	}
	g.mu.Unlock()
	if !g.hold(&c.sleeper) {
		c.sendLast()
		return false
	}
	c.late, c.looks = false, 0
	c.SetDeadline(time.Time{})
	c.rouse()
	return true
}

// maxLooks is how often an encrypted connection is read again, so that a client that never stops sending holds up a
// Freeze for a short time only.
const maxLooks = 5

// looksAgain gives an encrypted connection another DrainQuiet if it has input: on a busy machine its read may come when
// the deadline of Freeze is over, and ends then before it has looked.
func (c *conn) looksAgain() bool {
	if c.looks == maxLooks || c.stops() || !server.HasInput(c.Conn) {
		return false
	}
	c.looks++
	c.SetReadDeadline(time.Now().Add(server.DrainQuiet))
	return true
}

// rouse sets the deadlines again that others may have set before c cleared them.
func (c *conn) rouse() {
	if c.group.draining.Load() || c.doomed.Load() || c.group.frozen.Load() {
		c.SetReadDeadline(past)
	}
}

// pack makes what moves of c. ok = false: it cannot.
func (c *conn) pack() (m server.Moved, ok bool) {
	s, ok := c.session.(server.Movable)
	if !ok || c.raw == nil || c.port.TLS != nil {
		return m, false
	}
	closed := c.raw.Control(func(fd uintptr) {
		var err error
		m.FD, err = duplicate(int(fd))
		ok = err == nil
	})
	if closed != nil || !ok {
		return m, false
	}
	if m.State, ok = s.Freeze(); !ok {
		closeSocket(m.FD)
		return m, false
	}
	m.Port, m.In, m.Out = c.port.Name, slices.Clone(c.buf[:c.len]), c.out
	return m, true
}
