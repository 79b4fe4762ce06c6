package loop

import (
	"net/netip"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

// This file has what connections hold of the daemon's budget: input and output that wait.

// room returns the buffers for c's waiting bytes, and gives c a pair if it has none.
func (l *Loop) room(c *Conn) *Waiting {
	if c.Waiting == nil {
		if n := len(l.spare); n > 0 {
			c.Waiting, l.spare = l.spare[n-1], l.spare[:n-1]
		} else {
			c.Waiting = new(Waiting)
		}
		c.Waiting.Slot = c.Slot
	}
	return c.Waiting
}

// KeepInput stores input that the session has not been given yet.
func (l *Loop) KeepInput(c *Conn, input []byte) {
	l.room(c).In.add(input)
	l.account(c)
}

// KeepOutput stores output that the socket has not taken.
func (l *Loop) KeepOutput(c *Conn, out []byte) {
	l.room(c).Out.add(out)
	l.account(c)
}

// account tells the budget what c holds.
func (l *Loop) account(c *Conn) {
	if w := c.Waiting; w != nil && !c.Closing {
		if size := int64(cap(w.In.buf) + cap(w.Out.buf)); size != w.Size {
			if w.Size == 0 {
				w.Peer = l.peerOf(c)
			}
			l.Share.Set(&w.Holding, size)
			l.Strained = l.Strained || l.Share.Over()
		}
	}
}

// peerOf returns the peer of c, or 0 as long as it is not known.
func (l *Loop) peerOf(c *Conn) peers.Peer {
	switch {
	case c.Peer != 0:
	case l.Acceptors[c.Port].Unix:
		c.Peer = peers.Of(netip.Addr{})
	default:
		l.Learn(c)
	}
	return c.Peer
}

// Learned is called when the peer of c became known after Learn.
func (l *Loop) Learned(c *Conn, p peers.Peer) {
	c.Peer = p
	if w := c.Waiting; w != nil && w.Size > 0 {
		l.Share.Move(&w.Holding, p)
	}
}

// Disown removes c, which is about to be closed, from the budget. Its waiting output is freed when
// c is forgotten, at most one turn later.
func (l *Loop) Disown(c *Conn) {
	c.Parked = false
	if w := c.Waiting; w != nil {
		w.In = queue{}
		l.Share.Set(&w.Holding, 0)
	}
}

// Relieve closes connections, the biggest holders first, until the budget has room again. sacrifice
// frees what c holds and returns true, or returns false if it cannot do so in this turn.
func (l *Loop) Relieve(sacrifice func(c *Conn) bool) {
	for l.Strained {
		switch h := l.Share.Biggest(); {
		case h == nil:
			l.Strained = false
		case l.shrink(l.Conns.At(h.Slot)):
		case sacrifice(l.Conns.At(h.Slot)):
			l.Share.TellClosed(l.Log)
		default:
			return
		}
	}
}

// shrink frees the unused part of c's buffers if that is most of them: room may have given c larger
// buffers than it needed.
func (l *Loop) shrink(c *Conn) bool {
	w := c.Waiting
	if used := w.In.Len() + w.Out.Len(); int64(2*used) >= w.Size || c.Sending {
		return false
	}
	for _, q := range []*queue{&w.In, &w.Out} {
		*q = queue{buf: append([]byte(nil), q.Bytes()...)}
	}
	l.account(c)
	return true
}

// Trim frees what is kept for reuse.
func (l *Loop) Trim() {
	l.spare = nil
	if len(l.parked) == 0 {
		l.parked = nil
	}
}
