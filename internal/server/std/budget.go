package std

import (
	"sync"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// relieve ends connections, those that hold most first, until the budget has room again. They give up what they hold by themselves, a
// moment later.
func (g *group) relieve() {
	g.sharing.Lock()
	defer g.sharing.Unlock()
	for h := g.share.Biggest(); h != nil; h = g.share.Biggest() {
		c := h.Owner.(*conn)
		g.share.Set(h, 0)
		c.doomed.Store(true)
		// Wake it; see send and spared. To close it would mean to wait until it lets go.
		if c.blocked {
			c.SetDeadline(time.Unix(1, 0))
		} else {
			c.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// account tells the budget what c holds beyond what every connection has: a larger input buffer, and a buffer of that many bytes with output
// that the socket does not take. False: the connection is to be closed for that.
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
			c.holding = &server.Holding{Owner: c}
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

// spared is called when c was found to hold most. If all that it holds is a larger buffer than it needs now it gives that up, and goes on;
// else it tells the client why it ends.
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
	g.share.TellClosed(g.Log)
	c.SetWriteDeadline(time.Now().Add(server.LingerTime))
	if n, err := c.Write(c.port.OutOfMemory); err == nil {
		g.Counters.BytesWritten.Add(uint64(n))
		c.linger()
	}
	return false
}

// An output is a buffer for replies, with the means to learn that a write of it waits, which package net does not tell.
type output struct {
	buf     []byte
	attempt func(socket uintptr) bool // try, for c.raw
	c       *conn                     // whose write is under way
	rest    []byte                    // what it has yet to write
	err     error
}

// freeOutput is the size of an output at first. One that has not grown is not counted where it is unclear whether a write of it waits.
const freeOutput = 4 << 10

func borrowOutput(pool *sync.Pool) *output {
	if o, ok := pool.Get().(*output); ok {
		return o
	}
	o := &output{buf: make([]byte, 0, freeOutput)}
	o.attempt = o.try
	return o
}

// write writes piece, which lies in o.buf, to c. While that waits, c holds all of o.buf.
func (o *output) write(c *conn, piece []byte) (n int, err error) {
	switch {
	case c.raw != nil:
		o.c, o.rest, o.err = c, piece, nil
		if err = c.raw.Write(o.attempt); err == nil {
			err = o.err
		}
		n, o.c, o.rest = len(piece)-len(o.rest), nil, nil
		if c.blocked { // which is set by this goroutine only
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
