package std

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	smallBuffer = 512      // input buffer of a connection that is idle or sends one command at a time
	bigBuffer   = 16 << 10 // input buffer of a connection that sends more
	recordSize  = 16 << 10 // largest TLS record
)

// A handshaker is an encrypted connection.
type handshaker interface {
	HandshakeContext(context.Context) error
}

type conn struct {
	net.Conn
	sleeper
	group   *group
	port    *server.Port
	session server.Session
	last    atomic.Uint32 // sweep at which it was last active
	parked  atomic.Bool   // the session waits
	doomed  atomic.Bool   // the budget is used up and this connection holds the most; set under group.sharing
	final   bool          // draining: the next read is the last
	blocked bool          // output is waiting for the socket; guarded by group.sharing
	more    bool          // the session may have more to say, or to look at, without further input
	late    bool          // it has rested while the group was frozen, so Freeze may not wait for it
	looks   int           // deadlines of this Freeze that were over although there was input; see looksAgain
	out     []byte        // what the socket had not taken when the group was frozen

	// Its entry in the budget, nil before the first one; the content is guarded by group.sharing.
	holding *server.Holding
	raw     syscall.RawConn // see output; nil if not available

	latency latency.Sampler
	waits   time.Duration // latency.Clock when the session began to wait for what it has not answered; 0 = it does not

	buf   []byte  // input buffer
	len   int     // buf[:len] is unconsumed
	big   *[]byte // the borrowed buffer that buf uses, or nil
	small [smallBuffer]byte
}

// serve runs a connection: it reads what is there, answers all of it, and writes once.
func (c *conn) serve() {
	defer c.group.finished(c)
	defer c.release()
	if h, ok := c.Conn.(handshaker); ok && !c.handshake(h) {
		return
	}
	for {
		room, n := len(c.buf)-c.len, 0
		switch {
		case c.more:
			if !c.yield() || !c.sendRest() {
				return
			}
		default:
			if n = c.receive(); n == 0 {
				return
			}
			c.group.Counters.BytesRead.Add(uint64(n))
			c.touch()
			c.len += n
		}
		ok, err := c.answer()
		if err != nil && ok {
			ok = c.parkOrLinger(err) // a function, so that serve needs no more stack for it
		}
		if !ok || !c.fit(n) {
			return
		}
		if _, encrypted := c.Conn.(handshaker); c.final && n < room && !encrypted && !c.more {
			return // the socket was empty after the drain began
		}
	}
}

func (c *conn) handshake(h handshaker) bool {
	c.group.rest(&c.sleeper)
	defer func() {
		c.rests.Store(false)
		c.late = c.group.frozen.Load()
	}()
	ctx, cancel := context.WithTimeout(c.group.ctx, c.group.Handshake)
	defer cancel()
	if err := h.HandshakeContext(ctx); err != nil {
		c.group.Counters.HandshakeErrors.Add(1)
		c.group.Log.Debug("TLS handshake failed", "remote", c.RemoteAddr(), "error", err)
		return false
	}
	return true
}

// receive waits for input and returns how many bytes came, or 0 when the connection must be closed.
func (c *conn) receive() int {
	for {
		n, err := c.Read(c.buf[c.len:])
		if n > 0 {
			return n
		}
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.doomed.Load() && !c.spared() ||
			c.final && !server.HasInput(c.Conn):
			return 0
		case c.final:
			c.SetReadDeadline(time.Now().Add(server.DrainQuiet))
		case c.group.frozen.Load():
			if !c.looksAgain() && !c.yield() {
				return 0
			}
		case c.group.draining.Load():
			c.final = true
			c.SetReadDeadline(time.Now().Add(server.DrainQuiet))
		case c.idle():
			c.group.Counters.IdleClosed.Add(1)
			return 0
		default:
			c.SetReadDeadline(time.Time{})
			c.rouse()
		}
	}
}

// answer feeds the input to the session and sends the replies. err is the session's; ok = false
// means that the client is gone.
func (c *conn) answer() (ok bool, err error) {
	now := c.group.Now()
	c.latency.Begins(now)
	if c.waits != 0 {
		c.latency.Resumes()
	}
	out := borrowOutput(&c.group.outputs)
	defer func() {
		if cap(out.buf) <= server.KeepOutput {
			c.group.outputs.Put(out)
		}
	}()
	used, full := 0, true
	for c.more = false; full && err == nil; {
		if c.group.frozen.Load() && c.stops() || len(c.out) > 0 {
			c.more = true
			break
		}
		var n int
		n, out.buf, full, err = server.Converse(&c.session, now, c.buf[used:c.len], out.buf[:0])
		used += n
		if err != nil && server.Waits(err) {
			c.latency.Waits()
		}
		if len(out.buf) > 0 {
			c.answered()
			if !c.send(out) {
				return false, err
			}
		}
	}
	c.latency.Ends() // also without an answer
	c.len = copy(c.buf, c.buf[used:c.len])
	return true, err
}

// answered measures an answer that is sent next: how long the client takes to read it does not count.
func (c *conn) answered() {
	if c.waits != 0 {
		c.latency.Waited(c.waits)
		c.waits = 0
		return
	}
	c.latency.Answered()
	c.latency.Ends()
}

// send writes all of out.buf. It stops early when the client is gone, or has not taken a byte for
// the idle time-out. An encrypted connection does not survive a write that times out, so there the
// client must take a whole record within that time.
func (c *conn) send(out *output) bool {
	_, encrypted := c.Conn.(handshaker)
	for rest := out.buf; len(rest) > 0; {
		piece := rest
		if encrypted {
			piece = rest[:min(len(rest), recordSize)]
		}
		if encrypted {
			c.group.rest(&c.sleeper) // it cannot be woken without being broken
		}
		n, err := out.write(c, piece)
		if encrypted {
			c.rests.Store(false)
			c.late = c.group.frozen.Load()
		}
		c.group.Counters.BytesWritten.Add(uint64(n))
		if n > 0 && c.raw == nil { // try has told when the socket took them
			c.touch()
		}
		switch {
		case err == nil:
		case c.doomed.Load():
			c.group.share.TellClosed(c.group.Log)
			return false
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false
		case c.group.frozen.Load() && !encrypted && !c.rests.Load():
			c.out = slices.Clone(rest[n:])
			return true
		case encrypted || c.idle():
			c.group.Counters.IdleClosed.Add(1)
			return false
		default: // slow, but moving
			c.SetWriteDeadline(time.Time{})
			if c.group.frozen.Load() && !c.rests.Load() { // it may have set its deadline just before
				c.SetWriteDeadline(past)
			}
		}
		rest = rest[n:]
	}
	return true
}

// sendRest sends what the socket had not taken before. It returns false when the client is gone.
func (c *conn) sendRest() bool {
	if len(c.out) == 0 {
		return true
	}
	rest := &output{buf: c.out, c: c}
	rest.attempt = rest.try
	c.out = nil
	return c.send(rest)
}

// sendLast is sendRest for a connection whose session is not called any more.
func (c *conn) sendLast() {
	c.group.rest(&c.sleeper)
	if len(c.out) > 0 {
		c.SetDeadline(time.Time{})
		c.sendRest()
	}
}

// stops reports whether c must not call its session, because the group is frozen. An encrypted
// connection may still answer what it has read, if Freeze waits for it.
func (c *conn) stops() bool {
	_, encrypted := c.Conn.(handshaker)
	return !encrypted || c.late
}

// fit gives the connection an input buffer of a suitable size; n is how many bytes the last read
// brought. It switches to a larger buffer if that read, or an unfinished command, filled the
// current one, and to the small buffer if that would have been enough. It returns false if the
// session leaves too much unconsumed.
func (c *conn) fit(n int) bool {
	switch {
	case c.len == len(c.buf) && len(c.buf) >= server.MaxInput:
		c.group.Log.Warn("closing a connection whose session does not consume its input", "bytes", c.len)
		return false
	case c.len == len(c.buf) && len(c.buf) >= bigBuffer:
		grown := make([]byte, 2*len(c.buf))
		copy(grown, c.buf)
		c.release()
		c.buf = grown
		c.account(0)
	case c.len == len(c.buf) || n >= smallBuffer && len(c.buf) == smallBuffer:
		c.big = borrow(&c.group.inputs, bigBuffer)
		copy(*c.big, c.buf[:c.len])
		c.buf = (*c.big)[:bigBuffer]
		c.account(0)
	case n < smallBuffer && c.len <= smallBuffer/2 && len(c.buf) > smallBuffer:
		copy(c.small[:], c.buf[:c.len])
		c.release()
		c.buf = c.small[:]
		c.account(0)
	}
	return true
}

// release returns a borrowed input buffer.
func (c *conn) release() {
	if c.big != nil {
		c.group.inputs.Put(c.big)
		c.big = nil
	}
}

// parkOrLinger handles an error of the session. It returns true if the connection goes on.
func (c *conn) parkOrLinger(err error) (goesOn bool) {
	ok := true
	if server.Waits(err) {
		ok, err = c.park()
	}
	if ok && err != nil {
		c.linger()
	}
	return ok && err == nil
}

// linger ends the connection so that the client gets its last reply even if it is still sending.
func (c *conn) linger() {
	c.sendLast()
	if w, ok := c.Conn.(interface{ CloseWrite() error }); !ok || c.group.draining.Load() || w.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(c.group.Lingers()))
	for left := server.LingerBytes; left > 0; {
		n, err := c.Read(c.buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// touch records that the client is active.
func (c *conn) touch() {
	if now := c.group.sweep.Load(); c.last.Load() != now {
		c.last.Store(now)
	}
}

func (c *conn) idle() bool { return server.Idle(c.group.sweep.Load(), c.last.Load()) }

// borrow takes a buffer from a pool, or makes one of size bytes.
func borrow(pool *sync.Pool, size int) *[]byte {
	if b, ok := pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, size)
	return &b
}
