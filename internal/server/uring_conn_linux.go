package server

import "golang.org/x/sys/unix"

// inputAhead is how much input of a connection is kept, while its session has not got round to it, before no more is received.
const inputAhead = 64 << 10

// proceed does what is next for a connection. It is called whenever something about c has changed.
func (u *uringLoop) proceed(c *conn) {
	switch {
	case c.closing:
		u.closeWhenQuiet(c)
	case c.unsent():
		u.stopReceiving(c) // who does not take what he has asked for may ask no more
	case c.spoke == u.round && (c.ending || c.eof || u.draining):
		u.queue(c) // by then it is known whether the socket took the reply
	case c.ending && !c.lingering:
		u.finish(c)
	case c.more:
		if c.waiting != nil && c.waiting.in.len() >= inputAhead {
			u.stopReceiving(c)
		}
		u.queue(c)
	case c.eof || u.draining && c.lingering:
		u.drop(c)
	case u.draining:
		u.receiveLast(c)
	case !c.receiving && c.spoke == u.round:
		u.queue(c) // there are too few buffers, and it has had one: others first
	case !c.receiving:
		u.receive(c)
	}
}

// receive asks for the connection's input: now and whenever there is any, or, when its end is there
// already, for the next of what is left.
func (u *uringLoop) receive(c *conn) {
	mode := uint16(recvMultishot)
	if c.hungUp {
		mode = 0
	}
	c.receiving = true
	*u.submit() = sqe{op: opRecv, flags: sqeFixedFile | sqeBufferSelect, mode: mode, fd: c.slot, tag: tagOf(tagReceive, c)}
}

// watch asks when the client of a unix socket will send no more. A receive that goes on by itself
// should tell, and does for TCP. But for a unix socket Linux (6.18, and some before) forgets an end
// that it found together with the last input: https://github.com/axboe/liburing/issues/1549.
// A receive for each piece of input would not, but costs 13 % more for a request.
func (u *uringLoop) watch(c *conn) {
	c.watching = true
	*u.submit() = sqe{op: opPollAdd, flags: sqeFixedFile, fd: c.slot, opFlags: unix.POLLRDHUP, tag: tagOf(tagHangUp, c)}
}

// hungUp deals with the result of watch.
func (u *uringLoop) hungUp(r cqe) {
	c := u.owner(r.tag)
	if c == nil {
		return
	}
	c.watching = false
	switch {
	case c.closing:
		u.closeWhenQuiet(c)
	case r.res < 0:
		u.drop(c)
	default:
		c.hungUp = true
		u.stopReceiving(c)
		if u.talking != c {
			u.proceed(c)
		}
	}
}

// receiveLast asks for what has arrived already (c.readable: that was not done yet), and closes the connection when that is answered.
func (u *uringLoop) receiveLast(c *conn) {
	switch {
	case c.receiving && c.readable:
		u.stopReceiving(c)
	case c.receiving:
	case c.readable:
		c.receiving, c.readable = true, false
		*u.submit() = sqe{op: opRecv, flags: sqeFixedFile | sqeBufferSelect, fd: c.slot, opFlags: unix.MSG_DONTWAIT, tag: tagOf(tagReceive, c)}
	default:
		u.drop(c)
	}
}

func (u *uringLoop) stopReceiving(c *conn) {
	if c.receiving && !c.stopping {
		c.stopping = true
		u.cancel(tagOf(tagReceive, c))
	}
}

// received deals with a result of receive: some input, or that there will be no more.
func (u *uringLoop) received(r cqe) {
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
		c.receiving, c.stopping = false, false
	}
	switch e := unix.Errno(-r.res); {
	case r.res > 0:
		c.last = u.sweep
		u.read += uint64(r.res)
		c.readable = c.readable || u.draining && len(input) == u.ring.bufferSize
		u.hear(c, input)
	case r.res == 0:
		c.eof, c.readable = true, false
	case e == unix.ENOBUFS:
		u.ring.moreBuffers()
		c.readable = c.readable || u.draining
	case e != unix.ECANCELED && e != unix.EAGAIN && e != unix.EINTR:
		u.drop(c)
		return
	}
	if u.talking != c && c.session != nil { // else when its reply is complete, or never
		u.proceed(c)
	}
}

// hear has input answered, or keeps it for later: only one send of a connection may be under way, or they could overtake each other.
func (u *uringLoop) hear(c *conn, input []byte) {
	switch {
	case c.lingering:
		if c.waiting.left -= len(input); c.waiting.left < 0 {
			u.drop(c)
		}
	case c.closing || c.ending:
	case c.more || c.unsent() || c.spoke == u.round && u.talking != c:
		u.keepInput(c, input)
		c.more = true
	default:
		u.answer(c, input)
	}
}

// serveAgain gives the first n connections of the list, those that were in it when the turn began, another turn.
func (u *uringLoop) serveAgain(n int) {
	for _, slot := range u.again[:n] {
		c := u.conns.at(slot)
		if !c.queued {
			continue
		}
		c.queued = false
		if c.more && !c.unsent() && !c.closing && !c.ending && c.spoke != u.round {
			u.answer(c, nil)
		} else {
			u.proceed(c)
		}
	}
	u.again = u.again[:copy(u.again, u.again[n:])]
}

// answer adds to the reply of c, which lasts until another connection's begins.
func (u *uringLoop) answer(c *conn, input []byte) {
	if u.talking != c {
		u.endReply()
		if cap(u.replies)-len(u.replies) < 2*replyFull {
			u.ring.enter(false, false, true)
			u.settleSends()
		}
		u.talking, u.reply = c, u.replies[len(u.replies):]
	}
	u.reply = u.digest(c, input, u.reply)
}

// endReply queues the sending of the reply that was being made.
func (u *uringLoop) endReply() {
	c := u.talking
	if c == nil {
		return
	}
	u.talking = nil
	if n := len(u.reply); n > 0 {
		if n <= cap(u.replies)-len(u.replies) {
			u.replies = u.replies[:len(u.replies)+n]
		} // else it was too long, and has memory of its own
		*u.submit() = sqe{op: opSend, flags: sqeFixedFile | sqeSkipSuccess, fd: c.slot, address: addressOf(u.reply), length: uint32(n),
			opFlags: unix.MSG_DONTWAIT | unix.MSG_WAITALL | unix.MSG_NOSIGNAL, tag: tagSend | uint64(len(u.sends))}
		u.sends = append(u.sends, send{c.slot, c.life, u.reply})
		u.promised += uint64(n)
		c.spoke = u.round
	}
	u.reply = nil
	u.proceed(c)
}

// settleSends looks for sends that the last enter could not complete, keeps what they left, and makes room for the next replies. An
// enter carries out sends of this kind before it returns; only those that failed or fell short have a result.
func (u *uringLoop) settleSends() {
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
	u.written += u.promised
	u.promised = 0
	u.round++
}

func (u *uringLoop) fellShort(s send, res int) {
	sent := max(res, 0)
	u.promised -= uint64(len(s.bytes) - sent)
	c := u.conns.at(s.slot)
	if c.session == nil || c.life != s.life || c.closing {
		return
	}
	if e := unix.Errno(-res); res < 0 && e != unix.EAGAIN && e != unix.EINTR {
		u.drop(c)
		return
	}
	u.keepOutput(c, s.bytes[sent:])
	u.flush(c)
}

// flush sends what waits, as soon as the socket takes some of it.
func (u *uringLoop) flush(c *conn) {
	out := c.waiting.out.bytes()
	c.sending = true
	*u.submit() = sqe{op: opSend, flags: sqeFixedFile, fd: c.slot, address: addressOf(out), length: uint32(len(out)),
		opFlags: unix.MSG_NOSIGNAL, tag: tagOf(tagFlush, c)}
}

func (u *uringLoop) flushed(r cqe) {
	c := u.owner(r.tag)
	if c == nil {
		return
	}
	c.sending = false
	switch e := unix.Errno(-r.res); {
	case c.closing:
		u.closeWhenQuiet(c)
		return
	case r.res > 0:
		c.waiting.out.drop(int(r.res))
		c.last = u.sweep
		u.written += uint64(r.res)
	case e != unix.EAGAIN && e != unix.EINTR:
		u.drop(c)
		return
	}
	if c.unsent() {
		u.flush(c)
		return
	}
	u.settle(c)
	u.proceed(c)
}

// makeRoom sees to it that the budget is kept.
func (u *uringLoop) makeRoom() {
	if u.strained {
		u.endReply()
		u.relieve(u.sacrifice)
	}
}

// sacrifice ends the connection that holds most of a budget that is used up. False: another turn is needed.
func (u *uringLoop) sacrifice(c *conn) bool {
	switch {
	case c.unsent():
		u.drop(c) // there is no room to tell it
	case c.spoke == u.round:
		u.queue(c) // its reply is to come first
		return false
	default:
		u.disown(c)
		c.ending, c.more = true, false
		u.keepOutput(c, u.acceptors[c.port].OutOfMemory)
		u.flush(c)
		u.proceed(c)
	}
	return true
}

// finish ends a connection that was answered for the last time, such that the client gets the answer even if it is still sending.
func (u *uringLoop) finish(c *conn) {
	if c.eof || u.draining {
		u.drop(c)
		return
	}
	c.shutting = true
	*u.submit() = sqe{op: opShutdown, flags: sqeFixedFile, fd: c.slot, length: unix.SHUT_WR, tag: tagOf(tagEnd, c)}
	u.linger(c)
	u.proceed(c)
}

// ended deals with the result of finish's shutdown. It fails when the client is gone.
func (u *uringLoop) ended(r cqe) {
	c := u.owner(r.tag)
	if c == nil {
		return
	}
	c.shutting = false
	switch {
	case c.closing:
		u.closeWhenQuiet(c)
	case r.res < 0:
		u.drop(c)
	}
}

// drop closes the connection as soon as nothing is under way for it: until then its slot, and its memory, are in use.
func (u *uringLoop) drop(c *conn) {
	if !c.closing {
		c.closing = true
		u.disown(c)
		if u.talking == c {
			u.talking, u.reply = nil, nil
		}
		u.stopReceiving(c)
		if c.sending {
			u.cancel(tagOf(tagFlush, c))
		}
		if c.watching {
			u.cancel(tagOf(tagHangUp, c))
		}
	}
	u.closeWhenQuiet(c)
}

func (u *uringLoop) closeWhenQuiet(c *conn) {
	if !c.receiving && !c.sending && !c.shutting && !c.watching {
		u.closeSlot(c.slot)
		u.forget(c) // it is for the kernel to choose who gets the slot next
	}
}
