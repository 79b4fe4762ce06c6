package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"golang.org/x/sys/unix"
)

// A Control reaches the event loops of an engine from any goroutine. The zero value has none.
type Control struct {
	serving atomic.Pointer[serving] // the latest Serve; nil before and after it
	mu      sync.Mutex              // held while the loops are told to freeze, thaw, adopt or drain
}

// A serving is one call of Serve.
type serving struct {
	*balance
	dealers []*dealer
	ports   []server.Port
	phase   phase // guarded by Control.mu
}

type phase uint8

const (
	open phase = iota
	frozen
	draining
)

// Wake implements Engine.
func (c *Control) Wake() {
	s := c.serving.Load()
	if s == nil {
		return
	}
	for _, l := range s.loops {
		if l.awaited.Load() {
			l.Signal(SignalWake)
		}
	}
}

// Hold implements Engine. An idle loop gives its P away after 10 ms. On one CPU gRPC's goroutines then ran on
// two Ps and woke each other's threads 16,000 times a second, not 2,800. Hold lasts half a second and need not be
// ended. One loop is enough: the runtime has only one P more than there are loops.
//
// Fewer Ps instead, while the loops are idle, were tried. Where HTTP has all of its CPU, they are better: 2 % less CPU,
// and one answer in a thousand after 6 ms, not 16. Below that they are worse, by 10 to 40 % for HTTP and gRPC: each
// time the only P has nothing to do, the runtime's monitor begins to look every 20 us, and takes the P away from
// whoever is in a system call.
func (c *Control) Hold() {
	if s := c.serving.Load(); s != nil {
		s.loops[0].Signal(signalHold)
	}
}

// drain forbids Freeze, Thaw and Adopt from now on. It reports whether the engine is frozen: then
// another process may serve its ports.
func (c *Control) drain(s *serving) (wasFrozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasFrozen = s.phase == frozen
	s.phase = draining
	return wasFrozen
}

// in returns the Serve that runs, if it is in the given phase.
func (c *Control) in(p phase, otherwise error) (*serving, error) {
	s := c.serving.Load()
	switch {
	case s == nil || s.phase == draining:
		return nil, server.ErrIdle
	case s.phase != p:
		return nil, otherwise
	}
	return s, nil
}

// Freeze implements server.Mover.
func (c *Control) Freeze(ctx context.Context) (moved []server.Moved, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.in(open, server.ErrFrozen)
	if err != nil {
		return nil, err
	}
	for _, d := range s.dealers { // first: what they have dealt must reach the loops
		d.pause()
	}
	s.pause()
	freezes := make([]*Freeze, len(s.loops))
	for i, l := range s.loops {
		freezes[i] = &Freeze{given: make(chan []server.Moved, 1)}
		l.order(freezes[i])
	}
	for i, f := range freezes {
		given, e := f.await(ctx, s.loops[i])
		if freezes[i] = f; e != nil {
			freezes[i], err = nil, errors.Join(err, e)
		}
		moved = append(moved, given...)
	}
	if err == nil {
		s.phase = frozen
		return moved, nil
	}
	for i, f := range freezes {
		if f != nil {
			s.loops[i].order(nil)
		}
	}
	s.thaw(moved)
	return nil, err
}

// Thaw implements server.Mover.
func (c *Control) Thaw(moved []server.Moved) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.in(frozen, server.ErrThawed)
	if err != nil {
		return err
	}
	s.phase = open
	for _, l := range s.loops {
		l.order(nil)
	}
	s.thaw(moved)
	return nil
}

// thaw takes back what loops have given away. The loops have been told to thaw.
func (s *serving) thaw(moved []server.Moved) {
	s.resume()
	for _, m := range moved {
		if err := s.adopt(m); err != nil {
			unix.Close(m.FD)
			s.loops[0].Log.Warn("a connection is closed: its session cannot go on", "port", m.Port, "error", err)
		}
	}
	for _, d := range s.dealers {
		d.resume()
	}
}

// Adopt implements server.Mover.
func (c *Control) Adopt(m server.Moved) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.in(open, server.ErrFrozen)
	if err != nil {
		return err
	}
	return s.adopt(m)
}

func (s *serving) adopt(m server.Moved) error {
	for number := range s.ports {
		p := &s.ports[number]
		if p.Name != m.Port {
			continue
		}
		l := s.place(len(p.Listeners), s.loops[0]) // one that may accept from the port, too
		session, err := p.Reopen(l.Acceptors[number].loop, nil, m.State)
		if err = cmp.Or(err, unix.SetNonblock(m.FD, true)); err != nil {
			l.load.Add(-1)
			return err
		}
		if p.Peers {
			session.(server.PeerSession).Peer(PeerOf(int32(m.FD)))
		}
		l.Counters.Current.Add(1)
		l.give(Arrival{FD: int32(m.FD), Port: uint8(number), Adopted: &Adopted{session, m}})
		return nil
	}
	return fmt.Errorf("server: no port has the name %q", m.Port)
}

// An Adopted is what an arrival brings that was a connection before.
type Adopted struct {
	Session server.Session
	server.Moved
}

// Resume gives a connection what it had before it moved. The session is then asked once: it may have
// more to say, or to look at.
func (l *Loop) Resume(c *Conn, a *Adopted) {
	c.Session, c.More = a.Session, true
	if len(a.In) > 0 {
		l.KeepInput(c, a.In)
	}
	if len(a.Out) > 0 {
		l.KeepOutput(c, a.Out)
	}
}

// A Freeze tells a loop to stop feeding sessions and to give connections away.
type Freeze struct {
	decided atomic.Bool // the loop gives connections away, or Control no longer wants them
	given   chan []server.Moved
}

// await waits for what a loop gives. After an error the loop has given nothing, and goes on.
func (f *Freeze) await(ctx context.Context, l *Loop) ([]server.Moved, error) {
	select {
	case given := <-f.given:
		return given, nil
	case <-ctx.Done():
		if f.decided.CompareAndSwap(false, true) {
			return nil, ctx.Err()
		}
	case <-l.ended:
	}
	select {
	case given := <-f.given:
		return given, nil
	case <-l.ended:
		return nil, server.ErrIdle
	}
}

// Claim reports whether connections are still wanted. If so, the loop must Give.
func (f *Freeze) Claim() bool { return f.decided.CompareAndSwap(false, true) }

// Give ends the freezing.
func (f *Freeze) Give(moved []server.Moved) { f.given <- moved }

// order tells the loop to freeze, or, nil, to thaw.
func (l *Loop) order(f *Freeze) {
	l.mu.Lock()
	l.orders = append(l.orders, f)
	l.mu.Unlock()
	l.Signal(SignalGiven)
}

// Stays reports whether a connection is at its end, so that it needs no session any more.
func (c *Conn) Stays() bool { return c.Closing || c.Ending || c.Lingering }

// Pack freezes the session of a connection that is about to move as the descriptor fd, and takes its
// waiting bytes. The caller then forgets the connection. ok = false: it cannot move.
func (l *Loop) Pack(c *Conn, fd int32) (m server.Moved, ok bool) {
	s, ok := c.Session.(server.Movable)
	if !ok || c.Stays() {
		return m, false
	}
	if m.State, ok = s.Freeze(); !ok {
		return m, false
	}
	m.Port, m.FD = l.Acceptors[c.Port].Name, int(fd)
	if w := c.Waiting; w != nil {
		m.In, m.Out = w.In.Bytes(), w.Out.Bytes()
		w.In, w.Out = queue{}, queue{}
		l.Share.Set(&w.Holding, 0)
	}
	c.Parked = false
	return m, true
}
