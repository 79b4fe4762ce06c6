package epoll

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"

	"golang.org/x/sys/unix"
)

// follow freezes or thaws the loop.
func (e *epollLoop) follow(orders []*loop.Freeze) {
	for _, f := range orders {
		switch {
		case f == nil:
			e.thaw()
		case f.Claim():
			f.Give(e.freeze())
		}
	}
}

// freeze gives away all connections that can move. What they have sent and nobody has read stays in
// their sockets, where the next owner's epoll finds it.
func (e *epollLoop) freeze() (moved []server.Moved) {
	e.Frozen = true
	e.Conns.All(func(c *loop.Conn) {
		if c.Stays() {
			return
		}
		m, ok := e.Pack(c, c.FD)
		if !ok {
			c.Held = true
			return
		}
		e.watch(unix.EPOLL_CTL_DEL, int(c.FD), 0, 0)
		moved = append(moved, m)
		e.forget(c)
	})
	return moved
}

// thaw looks at everything again: events that came meanwhile do not come again.
func (e *epollLoop) thaw() {
	e.Frozen = false
	for i := range e.backlogs {
		e.backlogs[i] = true
	}
	e.accepting = true
	e.Conns.All(func(c *loop.Conn) {
		if c.Held {
			c.Held, c.Readable = false, true
			e.Queue(c)
		}
	})
}
