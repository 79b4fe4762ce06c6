package uring

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"os"

	"golang.org/x/sys/unix"
)

// A departure is the way to a frozen loop. The loop cancels what is under way for the connections that
// may move. An operation that has taken something from a socket says so in a result before that of the
// cancel, so once all have their last result, every byte is either in the socket or in Conn.Waiting.
// Then the connections get descriptors, which they have not while they are in the ring's table. With
// these they are given away, and only then do they leave the table: closing a slot closes one of two
// references to the socket.
type departure struct {
	*loop.Freeze
	leaving []leaving // nil: operations are being cancelled
	missing int       // descriptors that have not come yet
}

// A leaving is a connection that gets a descriptor.
type leaving struct {
	slot int32
	life uint32
	fd   int32 // -1 = none
}

// follow freezes or thaws the loop.
func (u *ringLoop) follow(orders []*loop.Freeze) {
	for _, f := range orders {
		if f == nil {
			u.thaw()
			continue
		}
		u.Frozen, u.departs = true, &departure{Freeze: f}
		for i := range u.accepts {
			if u.accepts[i].underWay {
				u.cancel(tagAccept | uint64(i))
			}
		}
		u.Conns.All(u.hold)
	}
}

// hold cancels what is under way for a connection that is not at its end.
func (u *ringLoop) hold(c *loop.Conn) {
	if c.Stays() {
		return
	}
	c.Held = true
	u.stopReceiving(c)
	if c.Sending {
		u.cancel(tagOf(tagFlush, c))
	}
	if c.Watching {
		u.cancel(tagOf(tagHangUp, c))
	}
}

// quiet reports whether nothing is under way that could bring or change a connection.
func (u *ringLoop) quiet() bool {
	if len(u.sends) > 0 || len(u.moves)+len(u.passing) > 0 {
		return false
	}
	for i := range u.accepts {
		if u.accepts[i].underWay {
			return false
		}
	}
	quiet := true
	u.Conns.All(func(c *loop.Conn) {
		if c.Held && (c.Receiving || c.Sending || c.Watching) {
			quiet = false
		}
	})
	return quiet
}

// depart does the next thing on the way to a frozen loop.
func (u *ringLoop) depart() {
	d := u.departs
	switch {
	case d.leaving == nil && !u.quiet():
	case d.leaving == nil && !d.Claim():
		u.thaw()
	case d.leaving == nil:
		d.leaving = make([]leaving, 0, u.Conns.Used)
		u.Conns.All(func(c *loop.Conn) {
			if _, ok := c.Session.(server.Movable); ok && c.Held && !c.Stays() {
				*u.submit() = sqe{op: opInstall, flags: sqeFixedFile, fd: c.Slot, tag: tagInstall | uint64(len(d.leaving))}
				d.leaving = append(d.leaving, leaving{c.Slot, c.Life, -1})
			}
		})
		if d.missing = len(d.leaving); d.missing == 0 {
			u.giveAway()
		}
	case d.missing == 0:
		u.giveAway()
	}
}

// installed handles the result of the operation that makes a descriptor.
func (u *ringLoop) installed(r cqe) {
	d := u.departs
	d.missing--
	if r.res >= 0 {
		d.leaving[uint32(r.tag)].fd = r.res
		return
	}
	u.Log.Warn("a connection cannot move", "error", os.NewSyscallError("io_uring fixed fd install", unix.Errno(-r.res)))
}

// giveAway ends the departure.
func (u *ringLoop) giveAway() {
	d := u.departs
	moved := make([]server.Moved, 0, len(d.leaving))
	for _, l := range d.leaving {
		if l.fd < 0 {
			continue
		}
		c := u.Conns.At(l.slot)
		if c.Life == l.life && unix.SetNonblock(int(l.fd), true) == nil {
			if m, ok := u.Pack(c, l.fd); ok {
				moved = append(moved, m)
				u.closeSlot(l.slot)
				u.Forget(c)
				continue
			}
		}
		unix.Close(int(l.fd))
	}
	u.departs = nil
	u.Conns.All(func(c *loop.Conn) {
		if c.Unsent() && !c.Sending && !c.Closing {
			u.flush(c)
		}
	})
	d.Give(moved)
}

// thaw goes on with everything.
func (u *ringLoop) thaw() {
	u.Frozen, u.departs, u.wary = false, nil, true
	u.acceptAll()
	u.Conns.All(func(c *loop.Conn) {
		if c.Held {
			c.Held = false
			u.begin(c)
		}
	})
}
