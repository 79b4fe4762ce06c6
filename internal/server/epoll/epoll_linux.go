// Package epoll is the engine whose event loops wait with epoll.
package epoll

import (
	"context"
	"github.com/katsubushi/katsubushi/v3/internal/peers"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"os"

	"golang.org/x/sys/unix"
)

// Engine runs event loops, each on its own thread. epoll reports which sockets have input,
// edge-triggered, so between a connection's first and last byte the loop tells epoll nothing. A
// request costs a read, a write and its share of a wait.
type Engine struct {
	server.Config
	loop.Control
}

// New makes the engine.
func New(c server.Config) *Engine { return &Engine{Config: c} }

// Name returns "epoll".
func (e *Engine) Name() string { return "epoll" }

// Serve implements Engine. The listeners must be TCP or unix listeners.
func (e *Engine) Serve(ctx context.Context, ports []server.Port) error {
	return loop.Serve(ctx, &e.Config, &e.Control, ports, newLoop)
}

// An epollLoop is an event loop that waits with epoll.
type epollLoop struct {
	*loop.Loop
	epoll     int
	events    []unix.EpollEvent
	input     []byte // reads of all connections go here
	output    []byte // replies to all connections are built here
	backlogs  []bool // per acceptor: its listener's backlog may hold more
	accepting bool   // true if any of backlogs is
}

const (
	readSize    = 64 << 10 // most bytes read from a connection in one turn
	turnEvents  = 512
	interest    = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	tagWake     = -1 // used in place of a slot
	tagListener = -2 // for acceptor 0; the other acceptors count down from here
)

func newLoop(l *loop.Loop) (loop.Runner, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	e := &epollLoop{Loop: l, epoll: fd, events: make([]unix.EpollEvent, turnEvents), input: make([]byte, readSize),
		output: make([]byte, 0, 2*server.ReplyFull), backlogs: make([]bool, len(l.Acceptors))}
	l.Learn = func(c *loop.Conn) { c.Peer = peers.Of(loop.PeerOf(c.FD)) }
	err = e.watch(unix.EPOLL_CTL_ADD, l.Wake, tagWake, unix.EPOLLIN|unix.EPOLLET)
	for i := range l.Acceptors {
		if fd := l.Acceptors[i].Listener; err == nil && fd >= 0 {
			err = e.watch(unix.EPOLL_CTL_ADD, fd, int32(tagListener-i), unix.EPOLLIN|unix.EPOLLET)
		}
	}
	if err != nil {
		e.Close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return e, nil
}

func (e *epollLoop) watch(op, fd int, tag int32, events uint32) error {
	return unix.EpollCtl(e.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: tag})
}

func (e *epollLoop) Close() {
	e.Conns.All(e.drop)
	unix.Close(e.epoll)
}

func (e *epollLoop) Run() error {
	for !e.Draining || e.Conns.Used > 0 {
		n, errno := e.EpollWait(e.epoll, e.events, len(e.Again) == 0 && !e.accepting)
		if errno != 0 && errno != unix.EINTR {
			return os.NewSyscallError("epoll_wait", errno)
		}
		if errno != 0 {
			n = 0
		}
		e.TurnBegins()
		again := len(e.Again)
		for _, ev := range e.events[:n] {
			switch {
			case ev.Fd == tagWake:
				e.Silence()
			case ev.Fd < 0:
				e.backlogs[tagListener-ev.Fd], e.accepting = true, true
			default:
				c := e.Conns.At(ev.Fd)
				c.Readable = true
				if ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
					c.HungUp = true
					c.Gone = c.Gone || ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
				}
				e.serve(c)
				e.makeRoom()
			}
		}
		e.serveAgain(again)
		// Descriptors and slots given back in this turn may be reused only now: no event of this
		// turn is left.
		if e.accepting {
			e.accept()
		}
		if s := e.Signals.Swap(0); s != 0 {
			e.Called(s)
			e.obey(s)
		}
		e.TurnEnds()
	}
	return nil
}

// serveAgain gives another turn to the first n connections of the list: those that were in it when
// the turn began.
func (e *epollLoop) serveAgain(n int) {
	for _, slot := range e.Again[:n] {
		if c := e.Conns.At(slot); c.Queued {
			c.Queued = false
			e.serve(c)
			e.makeRoom()
		}
	}
	e.Again = e.Again[:copy(e.Again, e.Again[n:])]
}

func (e *epollLoop) obey(signals uint32) {
	if signals&loop.SignalAccept != 0 {
		for i := range e.Acceptors {
			if a := &e.Acceptors[i]; a.Resting {
				a.Resting, e.backlogs[i] = false, true
			}
		}
		e.accept()
	}
	if signals&loop.SignalGiven != 0 {
		arrivals, orders := e.Taken()
		for _, a := range arrivals {
			e.welcome(a)
		}
		e.follow(orders)
	}
	if signals&loop.SignalSweep != 0 {
		e.SweepIdle(e.drop)
	}
	if signals&loop.SignalLinger != 0 {
		e.LingeredLong(e.drop)
	}
	if signals&(loop.SignalWake|loop.SignalPoll|loop.SignalAsk) != 0 {
		e.Unpark(signals, nil)
	}
	if signals&loop.SignalRelieve != 0 {
		e.Strained = true
		e.makeRoom()
	}
	if signals&loop.SignalTrim != 0 {
		e.Trim()
	}
	if signals&loop.SignalDrain != 0 {
		e.drain()
	}
	if signals&loop.SignalForce != 0 {
		e.Conns.All(e.drop)
	}
}

// accept takes a limited number of connections out of each backlog.
func (e *epollLoop) accept() {
	e.accepting = false
	for i := range e.backlogs {
		for n := 0; n < loop.TurnAccepts && e.backlogs[i]; n++ {
			e.backlogs[i] = e.acceptOne(i)
		}
		e.accepting = e.accepting || e.backlogs[i]
	}
}

// acceptOne accepts a connection from listener i. It returns false when there is none for now.
func (e *epollLoop) acceptOne(i int) bool {
	a := &e.Acceptors[i]
	if a.Listener < 0 || a.Resting || e.Frozen {
		return false
	}
	fd, errno := loop.RawAccept(a.Listener)
	switch {
	case errno == 0:
		a.Failures.Succeeded(e.Config)
		new := loop.Arrival{FD: fd, Port: uint8(i)}
		if to := e.Place(i); to == e.Loop || !e.Pass(to, new) {
			e.welcome(new)
		}
	case loop.Gone(errno):
	case errno == unix.EAGAIN:
		return false
	default:
		e.Rest(a, os.NewSyscallError("accept4", errno))
		return false
	}
	return true
}

// welcome starts a connection.
func (e *epollLoop) welcome(new loop.Arrival) {
	a := &e.Acceptors[new.Port]
	if new.Adopted == nil && !e.Admit() {
		loop.RawSend(new.FD, a.Refusal)
		unix.Close(int(new.FD))
		return
	}
	c := e.Conns.Take()
	c.FD, c.Port, c.Last, c.Held = new.FD, new.Port, e.Sweep, e.Frozen
	if new.Adopted != nil {
		e.Resume(c, new.Adopted)
	} else {
		c.Session = a.NewSession()
		if a.Peers {
			c.Session.(server.PeerSession).Peer(loop.PeerOf(new.FD))
		}
	}
	events := uint32(interest)
	if c.Unsent() {
		events |= unix.EPOLLOUT
	}
	if err := e.watch(unix.EPOLL_CTL_ADD, int(new.FD), c.Slot, events); err != nil {
		e.Log.Warn("cannot watch a connection", "error", err)
		e.drop(c)
		return
	}
	if e.Draining || c.More {
		c.Readable = true
		e.Queue(c)
	}
}

// drain stops accepting and gives each connection a last turn. Connections that have already
// arrived are served.
func (e *epollLoop) drain() {
	e.Draining = true
	for i := range e.Acceptors {
		for n := 0; n < loop.LongestBacklog && e.acceptOne(i); n++ {
		}
		e.Acceptors[i].Close()
	}
	clear(e.backlogs)
	e.accepting = false
	e.Conns.All(func(c *loop.Conn) {
		c.Readable = true
		e.Queue(c)
	})
}

// serve is a connection's turn: at most one read, one round of the session, one write.
func (e *epollLoop) serve(c *loop.Conn) {
	if c.Session == nil || c.Unsent() && !e.flush(c) {
		return // closed in this turn, or its client must first take the replies it asked for
	}
	switch {
	case c.Held && !c.Ending:
		if e.Draining {
			e.drop(c)
		}
		return
	case c.Ending && !c.Lingering:
		e.finish(c)
		return
	case c.Parked:
		e.stay(c)
		return
	}
	input := e.input[:0]
	if !c.More && c.Readable && !c.EOF {
		n, ok := e.receive(c)
		if !ok {
			e.drop(c)
			return
		}
		input = e.input[:n]
	}
	if c.Lingering {
		e.discard(c, len(input))
		return
	}
	if len(input) > 0 || c.More {
		out := e.Digest(c, input, e.output[:0])
		if len(out) > 0 && !e.send(c, out) {
			return
		}
	}
	e.proceed(c)
}

// proceed says what becomes of a connection behind its turn.
func (e *epollLoop) proceed(c *loop.Conn) {
	switch {
	case c.Ending:
		e.finish(c)
	case c.Parked:
		e.stay(c)
	case c.More || c.Readable && !c.EOF:
		e.Queue(c)
	case c.EOF || e.Draining:
		e.drop(c)
	}
}

// stay leaves a parked connection alone, unless its client has gone. A client that will only send no
// more still wants its answer. (After a close over TCP, it looks the same until it is answered.)
func (e *epollLoop) stay(c *loop.Conn) {
	if c.Gone {
		e.drop(c)
	}
}

// receive reads what the socket holds. A read that does not fill the buffer has emptied the socket,
// and epoll reports the next byte. The end of input is an exception: its event may already have
// come with the last bytes.
func (e *epollLoop) receive(c *loop.Conn) (n int, ok bool) {
	n, errno := loop.RawReceive(c.FD, e.input)
	switch {
	case errno == unix.EAGAIN:
		c.Readable = false
		return 0, true
	case errno != 0:
		return 0, errno == unix.EINTR
	case n == 0:
		c.EOF, c.Readable = true, false
		return 0, true
	}
	c.Readable = n == len(e.input) || c.HungUp
	c.Last = e.Sweep
	e.Read += uint64(n)
	return n, true
}

// send writes out, or as much as the socket takes, and keeps the rest. It returns false if c has to
// wait or is gone.
func (e *epollLoop) send(c *loop.Conn, out []byte) bool {
	n, errno := loop.RawSend(c.FD, out)
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			e.drop(c)
			return false
		}
		n = 0
	}
	e.Written += uint64(n)
	if n == len(out) {
		return true
	}
	e.KeepOutput(c, out[n:])
	// From now on epoll reports when the socket has room. If it always did, it would report every
	// reply that a client of a unix socket takes.
	if e.watch(unix.EPOLL_CTL_MOD, int(c.FD), c.Slot, interest|unix.EPOLLOUT) != nil {
		e.drop(c)
	}
	return false
}

// flush sends waiting output. It returns false if some is left, or c is gone.
func (e *epollLoop) flush(c *loop.Conn) bool {
	out := &c.Waiting.Out
	for out.Len() > 0 {
		n, errno := loop.RawSend(c.FD, out.Bytes())
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno != 0 && errno != unix.EINTR:
			e.drop(c)
			return false
		case errno == 0:
			out.Drop(n)
			e.Written += uint64(n)
			c.Last = e.Sweep
		}
	}
	e.Settle(c)
	if e.watch(unix.EPOLL_CTL_MOD, int(c.FD), c.Slot, interest) != nil {
		e.drop(c)
		return false
	}
	return true
}

// makeRoom closes connections while the budget is used up.
func (e *epollLoop) makeRoom() {
	if e.Strained {
		e.Relieve(e.sacrifice)
	}
}

// sacrifice ends a connection because it holds the most of a used-up budget.
func (e *epollLoop) sacrifice(c *loop.Conn) bool {
	if c.Unsent() {
		e.drop(c) // the socket has no room for the error message
		return true
	}
	e.Disown(c)
	if n, errno := loop.RawSend(c.FD, e.Acceptors[c.Port].OutOfMemory); errno == 0 {
		e.Written += uint64(n)
	}
	c.Ending = true
	e.finish(c)
	return true
}

// finish ends a connection after its last reply, so that the client gets the reply even if it is
// still sending.
func (e *epollLoop) finish(c *loop.Conn) {
	if c.EOF || e.Draining || unix.Shutdown(int(c.FD), unix.SHUT_WR) != nil {
		e.drop(c)
		return
	}
	e.Linger(c)
	c.Readable = true
	e.Queue(c)
}

func (e *epollLoop) discard(c *loop.Conn, n int) {
	c.Waiting.Left -= n
	switch {
	case c.EOF || e.Draining || c.Waiting.Left < 0:
		e.drop(c)
	case c.Readable:
		e.Queue(c)
	}
}

// drop closes the connection. Closing the descriptor also removes it from epoll.
func (e *epollLoop) drop(c *loop.Conn) {
	unix.Close(int(c.FD))
	e.forget(c)
}

// forget gives the slot of a connection back.
func (e *epollLoop) forget(c *loop.Conn) {
	slot := c.Slot
	e.Forget(c)
	e.Conns.Free = append(e.Conns.Free, slot)
}
