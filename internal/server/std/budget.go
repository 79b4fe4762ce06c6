package std

import (
	"sync"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// relieve dooms connections, the biggest holders first, until the budget has room again. They free
// what they hold themselves, a moment later.
func (g *group) relieve() {
	g.sharing.Lock()
	defer g.sharing.Unlock()
	for h := g.share.Biggest(); h != nil; h = g.share.Biggest() {
		c := h.Owner.(*conn)
		g.share.Set(h, 0)
		c.doomed.Store(true)
		// Wake it; see send and spared. Closing it here would wait until its write returns.
		if c.blocked {
			c.SetDeadline(time.Unix(1, 0))
		} else {
			c.SetReadDeadline(time.Unix(1, 0))
		}
	}
	g.Wake() // some may be parked
}

// account tells the budget what c holds beyond what every connection has: a larger input buffer,
// and an output buffer of that many bytes that the socket has not taken. It returns false if the
// connection must be closed for it.
func (c *conn) account(output int) bool {
	size := output
	if len(c.buf) > smallBuffer {
		size += cap(c.buf)
	}
	g := c.group
	g.sharing.Lock()
	c.blocked = output > 0
	if !c.doomed.Load() {
		if c.holding == nil {
			c.holding = &server.Holding{Owner: c, Peer: peers.Of(server.PeerOf(c.RemoteAddr()))}
		}
		g.share.Set(c.holding, int64(size))
		g.share.Flush()
	}
	over := g.share.Over()
	g.sharing.Unlock()
	if over {
		g.relieve()
	}
	return !c.doomed.Load()
}

// spared is called when c was found to hold the most. If c holds only a larger buffer than it needs
// now, it frees that buffer and goes on. Otherwise it tells the client why the connection ends.
func (c *conn) spared() bool {
	c.release()
	c.buf = c.small[:]
	g := c.group
	if c.len == 0 {
		g.sharing.Lock()
		defer g.sharing.Unlock()
		c.doomed.Store(false)
		return true
	}
	c.len = 0
	g.rest(&c.sleeper)
	g.share.TellClosed(g.Log)
	c.SetWriteDeadline(time.Now().Add(server.LingerTime))
	if n, err := c.Write(c.port.OutOfMemory); err == nil {
		g.Counters.BytesWritten.Add(uint64(n))
		c.linger()
	}
	return false
}

// An output is a buffer for replies. It also detects that a write is blocked, which package net
// does not report.
type output struct {
	buf     []byte
	attempt func(socket uintptr) bool // try, for c.raw
	c       *conn                     // the connection being written to
	rest    []byte                    // what is still to be written
	err     error
}

// freeOutput is the initial size of an output. One that has not grown is not counted where nobody
// can tell whether its write is blocked.
const freeOutput = 4 << 10

func borrowOutput(pool *sync.Pool) *output {
	if o, ok := pool.Get().(*output); ok {
		return o
	}
	o := &output{buf: make([]byte, 0, freeOutput)}
	o.attempt = o.try
	return o
}

// write writes piece, which lies in o.buf, to c. While the write is blocked, c holds all of o.buf.
func (o *output) write(c *conn, piece []byte) (n int, err error) {
	switch {
	case c.raw != nil:
		o.c, o.rest, o.err = c, piece, nil
		if err = c.raw.Write(o.attempt); err == nil {
			err = o.err
		}
		n, o.c, o.rest = len(piece)-len(o.rest), nil, nil
		if c.blocked { // only this goroutine sets it
			c.account(0)
		}
		return n, err
	case cap(o.buf) <= freeOutput:
		return c.Write(piece)
	case !c.account(cap(o.buf)):
		return 0, syscall.ENOMEM
	}
	n, err = c.Write(piece)
	c.account(0)
	return n, err
}
