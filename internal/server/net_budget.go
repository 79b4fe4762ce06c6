package server

import (
	"syscall"
	"time"
)

// relieve ends connections, those that hold most first, until the budget has room again. They give up what they hold by themselves, a
// moment later.
func (g *netGroup) relieve() {
	g.sharing.Lock()
	defer g.sharing.Unlock()
	for h := g.share.biggest(); h != nil; h = g.share.biggest() {
		c := h.conn
		g.share.set(h, 0)
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
func (c *netConn) account(output int) bool {
	size := output
	if len(c.buf) > smallBuffer {
		size += cap(c.buf)
	}
	g := c.group
	g.sharing.Lock()
	c.blocked = output > 0
	if !c.doomed.Load() {
		g.share.set(&c.holding, int64(size))
		g.share.flush()
	}
	over := g.share.over()
	g.sharing.Unlock()
	if over {
		g.relieve()
	}
	return !c.doomed.Load()
}

// spared is called when c was found to hold most. If all that it holds is a larger buffer than it needs now it gives that up, and goes on;
// else it tells the client why it ends.
func (c *netConn) spared() bool {
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
	g.share.tellClosed(g.Log)
	c.SetWriteDeadline(time.Now().Add(lingerTime))
	if n, err := c.Write(c.port.OutOfMemory); err == nil {
		g.Counters.BytesWritten.Add(uint64(n))
		c.linger()
	}
	return false
}

// A netOutput is the means to learn that a write waits, which package net does not tell.
type netOutput struct {
	raw     syscall.RawConn           // nil: there is no means
	attempt func(socket uintptr) bool // tryWrite
	rest    []byte                    // what it is to write
	held    int                       // bytes of the buffer that it lies in
	err     error
}

// freeOutput is the size of a buffer with output that is not worth to be counted when it is unclear whether the write waits.
const freeOutput = 4 << 10

// write is Write. While it waits, the buffer of held bytes that out lies in is counted.
func (c *netConn) write(out []byte, held int) (n int, err error) {
	switch {
	case c.raw != nil:
		c.rest, c.held, c.err = out, held, nil
		if err = c.raw.Write(c.attempt); err == nil {
			err = c.err
		}
		n, c.rest = len(out)-len(c.rest), nil
		if c.blocked { // which is set by this goroutine only
			c.account(0)
		}
		return n, err
	case held <= freeOutput:
		return c.Write(out)
	case !c.account(held):
		return 0, syscall.ENOMEM
	}
	n, err = c.Write(out)
	c.account(0)
	return n, err
}
