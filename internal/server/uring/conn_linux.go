package uring

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
)

import "golang.org/x/sys/unix"

// inputAhead is how much input of a connection is kept while its session is not ready for it.
// Beyond that, receiving stops.
const inputAhead = 64 << 10

// proceed does the next thing for a connection. It is called whenever something about c has
// changed.
func (u *ringLoop) proceed(c *loop.Conn) {
	switch {
	case c.Closing:
		u.closeWhenQuiet(c)
	case c.Unsent():
		u.stopReceiving(c) // a client that does not take its replies may ask no more
	case c.Spoke == u.round && (c.Ending || c.EOF || u.Draining):
		u.Queue(c) // by then it is known whether the socket took the reply
	case c.Ending && !c.Lingering:
		u.finish(c)
	case c.Held && !c.Lingering:
		if u.Draining {
			u.drop(c)
		}
	case c.Parked:
		u.stay(c)
	case c.More:
		if c.Waiting != nil && c.Waiting.In.Len() >= inputAhead {
			u.stopReceiving(c)
		}
		u.Queue(c)
	case c.EOF || u.Draining && c.Lingering:
		u.drop(c)
	case u.Draining:
		u.receiveLast(c)
	default:
		u.listen(c)
	}
}

// stay watches whether the client of a parked connection goes.
func (u *ringLoop) stay(c *loop.Conn) {
	switch {
	case c.Gone:
		u.drop(c)
	case !c.Watching && !c.HungUp:
		u.watch(c)
	}
}

// listen waits for what an idle connection's client sends.
func (u *ringLoop) listen(c *loop.Conn) {
	switch {
	case !c.Receiving && c.Spoke == u.round:
		u.Queue(c) // there are too few buffers and c has had one: let others go first
	case !c.Receiving:
		u.receive(c)
	case !c.Watching && !c.HungUp && !c.Lingering && c.Spoke != u.round:
		u.watch(c)
	}
}

// receive asks for the connection's input, now and whenever more comes. If the end of input is
// already there, it asks only for the next piece of what is left. So it does of one that pours: else
// a client that sends much and reads nothing has 32 buffers of input in memory before that is known.
func (u *ringLoop) receive(c *loop.Conn) {
	mode := uint16(recvMultishot)
	if c.HungUp || c.Pours {
		mode = 0
	}
	c.Receiving = true
	*u.submit() = sqe{op: opRecv, flags: sqeFixedFile | sqeBufferSelect, mode: mode, fd: c.Slot, tag: tagOf(tagReceive, c)}
}

// watch asks the kernel to report when the client will send no more. A receive that goes on by
// itself should report that, but Linux (6.18 and some before) loses what it finds together with the
// last input: on a unix socket the end (https://github.com/axboe/liburing/issues/1549), on TCP a
// reset behind 32 buffers of input. So connections of a unix socket are watched from the start; a
// receive for each piece of input would find the end as well, but costs 13 % more per request. A
// TCP connection is watched from its first input that gets no reply. On the others the reply fails
// and so reveals the reset.
func (u *ringLoop) watch(c *loop.Conn) {
	c.Watching = true
	*u.submit() = sqe{op: opPollAdd, flags: sqeFixedFile, fd: c.Slot, opFlags: unix.POLLRDHUP, tag: tagOf(tagHangUp, c)}
}

// hungUp handles the result of watch.
func (u *ringLoop) hungUp(r cqe) {
	c := u.owner(r.tag)
	if c == nil {
		return
	}
	c.Watching = false
	switch {
	case c.Closing:
		u.closeWhenQuiet(c)
	case unix.Errno(-r.res) == unix.ECANCELED:
		u.begin(c)
	case r.res < 0:
		u.drop(c)
	default:
		c.Gone = r.res&(unix.POLLHUP|unix.POLLERR) != 0
		if !c.HungUp {
			c.HungUp = true
			u.stopReceiving(c)
		}
		if u.talking != c {
			u.proceed(c)
		}
	}
}

// lookAfter asks what has become of a parked client that has ended its input: it may still want its
// answer, or be gone. As long as it can send, watch tells.
func (u *ringLoop) lookAfter(c *loop.Conn) {
	if c.HungUp && !c.Watching {
		u.watch(c)
	}
}

// receiveLast asks for input that has already arrived (c.Readable: not asked yet), and closes the
// connection when that is answered.
func (u *ringLoop) receiveLast(c *loop.Conn) {
	switch {
	case c.Receiving && c.Readable:
		u.stopReceiving(c)
	case c.Receiving:
	case c.Readable:
		c.Receiving, c.Readable = true, false
		*u.submit() = sqe{op: opRecv, flags: sqeFixedFile | sqeBufferSelect, fd: c.Slot, opFlags: unix.MSG_DONTWAIT,
			tag: tagOf(tagReceive, c)}
	default:
		u.drop(c)
	}
}

func (u *ringLoop) stopReceiving(c *loop.Conn) {
	if c.Receiving && !c.Stopping {
		c.Stopping = true
		u.cancel(tagOf(tagReceive, c))
	}
}

// received handles a result of receive: some input, or the end of input.
func (u *ringLoop) received(r cqe) {
	c := u.owner(r.tag)
	var id uint16
	var input []byte
	if r.flags&cqeBuffer != 0 {
		id, input = u.ring.received(r)
		defer u.ring.giveBack(id)
	}
	if c == nil {
		return
	}
	if r.flags&cqeMore == 0 {
		c.Receiving, c.Stopping = false, false
	}
	switch e := unix.Errno(-r.res); {
	case r.res > 0:
		c.Last = u.Sweep
		u.Read += uint64(r.res)
		c.Pours = len(input) == u.ring.bufferSize
		c.Readable = c.Readable || u.Draining && len(input) == u.ring.bufferSize
		u.hear(c, input)
	case r.res == 0:
		c.EOF, c.Readable = true, false
	case e == unix.ENOBUFS:
		u.ring.moreBuffers()
		c.Readable = c.Readable || u.Draining
	case e != unix.ECANCELED && e != unix.EAGAIN && e != unix.EINTR:
		u.drop(c)
		return
	}
	if u.talking != c && c.Session != nil { // otherwise it proceeds when its reply is complete, or never
		u.proceed(c)
	}
}

// hear answers input, or keeps it for later: a connection may have only one send under way, or
// sends could overtake each other.
func (u *ringLoop) hear(c *loop.Conn, input []byte) {
	switch {
	case c.Lingering:
		if c.Waiting.Left -= len(input); c.Waiting.Left < 0 {
			u.drop(c)
		}
	case c.Closing || c.Ending:
	case c.More || c.Held || c.Unsent() || c.Spoke == u.round && u.talking != c:
		u.KeepInput(c, input)
		c.More = true
		if c.Parked { // most clients send nothing while they wait, and to receive anew costs them more
			u.stopReceiving(c)
		}
	default:
		u.answer(c, input)
	}
}

// serveAgain gives another turn to the first n connections of the list: those that were in it when
// the turn began.
func (u *ringLoop) serveAgain(n int) {
	for _, slot := range u.Again[:n] {
		c := u.Conns.At(slot)
		if !c.Queued {
			continue
		}
		c.Queued = false
		if c.More && !c.Held && !c.Parked && !c.Unsent() && !c.Closing && !c.Ending && c.Spoke != u.round {
			u.answer(c, nil)
		} else {
			u.proceed(c)
		}
	}
	u.Again = u.Again[:copy(u.Again, u.Again[n:])]
}

// answer adds to the reply of c. The reply ends when another connection's begins.
func (u *ringLoop) answer(c *loop.Conn, input []byte) {
	if u.talking != c {
		u.endReply()
		if cap(u.replies)-len(u.replies) < 2*server.ReplyFull {
			u.ring.enter(false, false, true)
			u.settleSends()
		}
		u.talking, u.reply = c, u.replies[len(u.replies):]
	}
	u.reply = u.Digest(c, input, u.reply)
}

// endReply queues the send of the reply being built.
func (u *ringLoop) endReply() {
	c := u.talking
	if c == nil {
		return
	}
	u.talking = nil
	if n := len(u.reply); n > 0 {
		if n <= cap(u.replies)-len(u.replies) {
			u.replies = u.replies[:len(u.replies)+n]
		} // otherwise the reply was too long and has its own memory
		*u.submit() = sqe{op: opSend, flags: sqeFixedFile | sqeSkipSuccess, fd: c.Slot, address: addressOf(u.reply),
			length:  uint32(n),
			opFlags: unix.MSG_DONTWAIT | unix.MSG_WAITALL | unix.MSG_NOSIGNAL, tag: tagSend | uint64(len(u.sends))}
		u.sends = append(u.sends, send{c.Slot, c.Life, u.reply})
		u.promised += uint64(n)
		c.Spoke = u.round
	}
	u.reply = nil
	u.proceed(c)
}

// settleSends checks for sends that the last enter could not complete, keeps what they left, and
// makes room for the next replies. An enter carries out sends of this kind before it returns; only
// sends that failed or fell short have a result. That enter also waits for the next turn, so a turn's
// bytes are counted as written in the next one; to know sooner would cost each turn another system call.
func (u *ringLoop) settleSends() {
	for ready := u.ring.ready(); u.scanned != ready; u.scanned++ {
		if r := u.ring.at(u.scanned); r.tag&tagKind == tagSend {
			u.fellShort(u.sends[uint32(r.tag)], int(r.res))
		}
	}
	if u.ring.overflowed() || !u.ring.submitted() { // a result may come later, so what it refers to must stay
		u.replies = make([]byte, 0, cap(u.replies))
		return
	}
	u.sends, u.replies = u.sends[:0], u.replies[:0]
	u.Written += u.promised
	u.promised = 0
	u.round++
}

func (u *ringLoop) fellShort(s send, res int) {
	sent := max(res, 0)
	u.promised -= uint64(len(s.bytes) - sent)
	c := u.Conns.At(s.slot)
	if c.Session == nil || c.Life != s.life || c.Closing {
		return
	}
	if e := unix.Errno(-res); res < 0 && e != unix.EAGAIN && e != unix.EINTR {
		u.drop(c)
		return
	}
	u.KeepOutput(c, s.bytes[sent:])
	u.flush(c)
}

// flush sends waiting output as soon as the socket takes some of it.
func (u *ringLoop) flush(c *loop.Conn) {
	if c.Held && u.departs != nil {
		return // it may move
	}
	out := c.Waiting.Out.Bytes()
	c.Sending = true
	*u.submit() = sqe{op: opSend, flags: sqeFixedFile, fd: c.Slot, address: addressOf(out), length: uint32(len(out)),
		opFlags: unix.MSG_NOSIGNAL, tag: tagOf(tagFlush, c)}
}

func (u *ringLoop) flushed(r cqe) {
	c := u.owner(r.tag)
	if c == nil {
		return
	}
	c.Sending = false
	switch e := unix.Errno(-r.res); {
	case c.Closing:
		u.closeWhenQuiet(c)
		return
	case r.res > 0:
		c.Waiting.Out.Drop(int(r.res))
		c.Last = u.Sweep
		u.Written += uint64(r.res)
	case e != unix.EAGAIN && e != unix.EINTR && e != unix.ECANCELED:
		u.drop(c)
		return
	}
	if c.Unsent() {
		u.flush(c)
		return
	}
	u.Settle(c)
	u.proceed(c)
}

// makeRoom closes connections while the budget is used up.
func (u *ringLoop) makeRoom() {
	if u.Strained {
		u.endReply()
		u.Relieve(u.sacrifice)
	}
}

// sacrifice ends a connection because it holds the most of a used-up budget. It returns false if it
// needs another turn.
func (u *ringLoop) sacrifice(c *loop.Conn) bool {
	switch {
	case c.Unsent():
		u.drop(c) // the socket has no room for the error message
	case c.Spoke == u.round:
		u.Queue(c) // its reply goes first
		return false
	default:
		u.Disown(c)
		c.Ending, c.More = true, false
		u.KeepOutput(c, u.Acceptors[c.Port].OutOfMemory)
		u.flush(c)
		u.proceed(c)
	}
	return true
}

// finish ends a connection after its last reply, so that the client gets the reply even if it is
// still sending.
func (u *ringLoop) finish(c *loop.Conn) {
	if c.EOF || u.Draining {
		u.drop(c)
		return
	}
	c.Shutting = true
	*u.submit() = sqe{op: opShutdown, flags: sqeFixedFile, fd: c.Slot, length: unix.SHUT_WR, tag: tagOf(tagEnd, c)}
	u.Linger(c)
	u.proceed(c)
}

// ended handles the result of finish's shutdown, which fails when the client is gone.
func (u *ringLoop) ended(r cqe) {
	c := u.owner(r.tag)
	if c == nil {
		return
	}
	c.Shutting = false
	switch {
	case c.Closing:
		u.closeWhenQuiet(c)
	case r.res < 0:
		u.drop(c)
	}
}

// drop closes the connection once nothing is under way for it. Until then its slot and its memory
// are in use.
func (u *ringLoop) drop(c *loop.Conn) {
	if !c.Closing {
		c.Closing = true
		u.Disown(c)
		if u.talking == c {
			u.talking, u.reply = nil, nil
		}
		u.stopReceiving(c)
		if c.Sending {
			u.cancel(tagOf(tagFlush, c))
		}
		if c.Watching {
			u.cancel(tagOf(tagHangUp, c))
		}
	}
	u.closeWhenQuiet(c)
}

func (u *ringLoop) closeWhenQuiet(c *loop.Conn) {
	if !c.Receiving && !c.Sending && !c.Shutting && !c.Watching {
		u.closeSlot(c.Slot)
		u.Forget(c) // the kernel chooses who gets the slot next
	}
}
