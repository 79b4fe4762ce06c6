package server

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Epoll is event loops, each on a thread of its own: epoll tells which sockets have input, edge-triggered, so that it
// need not be told anything between a connection's first byte and its last. A request costs a read, a write and its share of a wait.
type Epoll struct{ Config }

// NewEpoll makes the engine.
func NewEpoll(c Config) *Epoll { return &Epoll{c} }

// Name is "epoll".
func (e *Epoll) Name() string { return "epoll" }

// Serve implements Engine. The listeners must be TCP's or unix's.
func (e *Epoll) Serve(ctx context.Context, ports []Port) error {
	return serveLoops(ctx, &e.Config, ports, newEpollLoop)
}

// An epollLoop is a loop that waits with epoll.
type epollLoop struct {
	*loop
	epoll     int
	events    []unix.EpollEvent
	input     []byte // all connections' reads go here
	output    []byte // and all replies are made here
	backlogs  []bool // of each acceptor: there may be more in its listener's backlog
	accepting bool   // any of them
}

const (
	readSize    = 64 << 10 // bytes read from a connection in one turn, at most
	turnEvents  = 512
	interest    = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	tagWake     = -1 // instead of a slot
	tagListener = -2 // of acceptor 0; those of the others are below

	longestBacklog = 1 << 16 // the kernel's limit
)

func newEpollLoop(l *loop) (runner, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	e := &epollLoop{loop: l, epoll: fd, events: make([]unix.EpollEvent, turnEvents), input: make([]byte, readSize), output: make([]byte, 0, 2*replyFull), backlogs: make([]bool, len(l.acceptors))}
	err = e.watch(unix.EPOLL_CTL_ADD, l.wake, tagWake, unix.EPOLLIN|unix.EPOLLET)
	for i := range l.acceptors {
		if fd := l.acceptors[i].listener; err == nil && fd >= 0 {
			err = e.watch(unix.EPOLL_CTL_ADD, fd, int32(tagListener-i), unix.EPOLLIN|unix.EPOLLET)
		}
	}
	if err != nil {
		e.close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return e, nil
}

func (e *epollLoop) watch(op, fd int, tag int32, events uint32) error {
	return unix.EpollCtl(e.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: tag})
}

func (e *epollLoop) close() {
	e.conns.all(e.drop)
	unix.Close(e.epoll)
}

func (e *epollLoop) run() error {
	for !e.draining || e.conns.used > 0 {
		n, errno := e.epollWait(e.epoll, e.events, len(e.again) == 0 && !e.accepting)
		if errno != 0 && errno != unix.EINTR {
			return os.NewSyscallError("epoll_wait", errno)
		}
		if errno != 0 {
			n = 0
		}
		e.turnBegins()
		again := len(e.again)
		for _, ev := range e.events[:n] {
			switch {
			case ev.Fd == tagWake:
				e.silence()
			case ev.Fd < 0:
				e.backlogs[tagListener-ev.Fd], e.accepting = true, true
			default:
				c := e.conns.at(ev.Fd)
				c.readable = true
				c.hungUp = c.hungUp || ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
				e.serve(c)
				e.makeRoom()
			}
		}
		e.serveAgain(again)
		// Only now may descriptors and slots that were given back in this turn be used again: no event of this turn is left.
		if e.accepting {
			e.accept()
		}
		if s := e.signals.Swap(0); s != 0 {
			e.raw = mayBlockRaw(e.loops)
			e.obey(s)
		}
		e.turnEnds()
	}
	return nil
}

// serveAgain gives the first n connections of the list, those that were in it when the turn began, another turn.
func (e *epollLoop) serveAgain(n int) {
	for _, slot := range e.again[:n] {
		if c := e.conns.at(slot); c.queued {
			c.queued = false
			e.serve(c)
			e.makeRoom()
		}
	}
	e.again = e.again[:copy(e.again, e.again[n:])]
}

func (e *epollLoop) obey(signals uint32) {
	if signals&signalAccept != 0 {
		for i := range e.acceptors {
			if a := &e.acceptors[i]; a.resting {
				a.resting, e.backlogs[i] = false, true
			}
		}
		e.accept()
	}
	if signals&signalGiven != 0 {
		for _, a := range e.taken() {
			e.welcome(a)
		}
	}
	if signals&signalSweep != 0 {
		e.sweepIdle(e.drop)
	}
	if signals&signalLinger != 0 {
		e.lingeredLong(e.drop)
	}
	if signals&signalRelieve != 0 {
		e.strained = true
		e.makeRoom()
	}
	if signals&signalTrim != 0 {
		e.trim()
	}
	if signals&signalDrain != 0 {
		e.drain()
	}
	if signals&signalForce != 0 {
		e.conns.all(e.drop)
	}
}

// accept takes connections out of the backlogs, a bounded number of each.
func (e *epollLoop) accept() {
	e.accepting = false
	for i := range e.backlogs {
		for n := 0; n < turnAccepts && e.backlogs[i]; n++ {
			e.backlogs[i] = e.acceptOne(i)
		}
		e.accepting = e.accepting || e.backlogs[i]
	}
}

// acceptOne accepts a connection from listener i. False: not now.
func (e *epollLoop) acceptOne(i int) bool {
	a := &e.acceptors[i]
	if a.listener < 0 || a.resting {
		return false
	}
	fd, errno := rawAccept(a.listener)
	switch {
	case errno == 0:
		a.failures.succeeded(e.Config)
		e.welcome(arrival{fd, uint8(i)})
	case gone(errno):
	case errno == unix.EAGAIN:
		return false
	default:
		e.rest(a, os.NewSyscallError("accept4", errno))
		return false
	}
	return true
}

// welcome starts a connection.
func (e *epollLoop) welcome(new arrival) {
	a := &e.acceptors[new.port]
	if !e.admit() {
		rawSend(new.fd, a.Refusal)
		unix.Close(int(new.fd))
		return
	}
	c := e.conns.take()
	c.fd, c.port, c.session, c.last = new.fd, new.port, a.open(), e.sweep
	if a.Peers {
		c.session.(PeerSession).Peer(peerOf(new.fd))
	}
	if err := e.watch(unix.EPOLL_CTL_ADD, int(new.fd), c.slot, interest); err != nil {
		e.Log.Warn("cannot watch a connection", "error", err)
		e.drop(c)
		return
	}
	if e.draining {
		c.readable = true
		e.queue(c)
	}
}

// drain stops accepting and gives each connection a last turn. Whoever has come so far is served.
func (e *epollLoop) drain() {
	e.draining = true
	for i := range e.acceptors {
		for n := 0; n < longestBacklog && e.acceptOne(i); n++ {
		}
		e.acceptors[i].close()
	}
	clear(e.backlogs)
	e.accepting = false
	e.conns.all(func(c *conn) {
		c.readable = true
		e.queue(c)
	})
}

// serve is a connection's turn: at most one read, one round of the session, one write.
func (e *epollLoop) serve(c *conn) {
	if c.session == nil || c.unsent() && !e.flush(c) {
		return // closed in this turn; or its client does not take what it has asked for: it may ask no more
	}
	if c.ending && !c.lingering {
		e.finish(c)
		return
	}
	input := e.input[:0]
	if !c.more && c.readable && !c.eof {
		n, ok := e.receive(c)
		if !ok {
			e.drop(c)
			return
		}
		input = e.input[:n]
	}
	if c.lingering {
		e.discard(c, len(input))
		return
	}
	if len(input) > 0 || c.more {
		out := e.digest(c, input, e.output[:0])
		if len(out) > 0 && !e.send(c, out) {
			return
		}
	}
	switch {
	case c.ending:
		e.finish(c)
	case c.more || c.readable && !c.eof:
		e.queue(c)
	case c.eof || e.draining:
		e.drop(c)
	}
}

// receive reads what the socket holds. A read that does not fill the buffer has emptied it, and the next byte will be an event, unless
// it is the end, which may have been part of the last one.
func (e *epollLoop) receive(c *conn) (n int, ok bool) {
	n, errno := rawReceive(c.fd, e.input)
	switch {
	case errno == unix.EAGAIN:
		c.readable = false
		return 0, true
	case errno != 0:
		return 0, errno == unix.EINTR
	case n == 0:
		c.eof, c.readable = true, false
		return 0, true
	}
	c.readable = n == len(e.input) || c.hungUp
	c.last = e.sweep
	e.read += uint64(n)
	return n, true
}

// send writes out, or as much as the socket takes, and keeps the rest. False: c has to wait, or is gone.
func (e *epollLoop) send(c *conn, out []byte) bool {
	n, errno := rawSend(c.fd, out)
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			e.drop(c)
			return false
		}
		n = 0
	}
	e.written += uint64(n)
	if n == len(out) {
		return true
	}
	e.keepOutput(c, out[n:])
	// From now on the socket tells when it has room. Otherwise it would do so for every reply that a client of a unix socket takes.
	if e.watch(unix.EPOLL_CTL_MOD, int(c.fd), c.slot, interest|unix.EPOLLOUT) != nil {
		e.drop(c)
	}
	return false
}

// flush sends what waits. False: there is still some, or c is gone.
func (e *epollLoop) flush(c *conn) bool {
	out := &c.waiting.out
	for out.len() > 0 {
		n, errno := rawSend(c.fd, out.bytes())
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno != 0 && errno != unix.EINTR:
			e.drop(c)
			return false
		case errno == 0:
			out.drop(n)
			e.written += uint64(n)
			c.last = e.sweep
		}
	}
	e.settle(c)
	if e.watch(unix.EPOLL_CTL_MOD, int(c.fd), c.slot, interest) != nil {
		e.drop(c)
		return false
	}
	return true
}

// makeRoom sees to it that the budget is kept.
func (e *epollLoop) makeRoom() {
	if e.strained {
		e.relieve(e.sacrifice)
	}
}

// sacrifice ends the connection that holds most of a budget that is used up.
func (e *epollLoop) sacrifice(c *conn) bool {
	if c.unsent() {
		e.drop(c) // there is no room to tell it
		return true
	}
	e.disown(c)
	if n, errno := rawSend(c.fd, e.acceptors[c.port].OutOfMemory); errno == 0 {
		e.written += uint64(n)
	}
	c.ending = true
	e.finish(c)
	return true
}

// finish ends a connection that was answered for the last time, such that the client gets the answer even if it is still sending.
func (e *epollLoop) finish(c *conn) {
	if c.eof || e.draining || unix.Shutdown(int(c.fd), unix.SHUT_WR) != nil {
		e.drop(c)
		return
	}
	e.linger(c)
	c.readable = true
	e.queue(c)
}

func (e *epollLoop) discard(c *conn, n int) {
	c.waiting.left -= n
	switch {
	case c.eof || e.draining || c.waiting.left < 0:
		e.drop(c)
	case c.readable:
		e.queue(c)
	}
}

// drop closes the connection. The descriptor leaves epoll by itself.
func (e *epollLoop) drop(c *conn) {
	unix.Close(int(c.fd))
	slot := c.slot
	e.forget(c)
	e.conns.free = append(e.conns.free, slot)
}
