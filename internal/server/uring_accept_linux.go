package server

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An accept is what the kernel does for one acceptor of a loop.
type accept struct {
	underWay bool
	multi    bool // it goes on by itself
	last     bool // it is for what is in the backlog when the loop is drained

	peer    unix.RawSockaddrAny // of the connection that was accepted last, if Port.Peers is set; the kernel writes it
	peerLen uint32              // bytes; likewise
}

// A move is a connection that came as a descriptor, on its way into the ring's table.
type move struct {
	arrival
	slot int32 // the kernel reads the descriptor here and writes the slot
}

// acceptReserve is how many connections an accept that goes on by itself may bring before it can be stopped: a whole backlog.
// Those that find no room in the ring's table are lost.
const acceptReserve = 4096 + 256

func (u *uringLoop) acceptAll() {
	for i := range u.acceptors {
		u.armAccept(i)
	}
}

// armAccept asks for connections of acceptor i: for all that come, or, when there is little room left for them, for one.
func (u *uringLoop) armAccept(i int) {
	a, now := &u.acceptors[i], &u.accepts[i]
	if now.underWay || a.resting || now.last || a.listener < 0 {
		return
	}
	room := u.ring.files - u.conns.used
	if room <= 0 && u.draining {
		a.close()
		return
	}
	if room <= 0 {
		u.rest(a, os.NewSyscallError("accept", unix.ENFILE))
		return
	}
	now.multi = room > u.reserve && !a.Peers // there is one place for a peer's address
	s := sqe{op: opAccept, fd: int32(a.listener), fileIndex: allocFile, tag: tagAccept | uint64(i)}
	if a.Peers && !u.draining {
		now.peerLen = unix.SizeofSockaddrAny
		s.address, s.offset = uint64(uintptr(unsafe.Pointer(&now.peer))), uint64(uintptr(unsafe.Pointer(&now.peerLen)))
	}
	if now.multi {
		s.mode = acceptMultishot
	}
	if u.draining {
		now.last = true
		s.mode = acceptMultishot | acceptDontWait
	}
	now.underWay = true
	*u.submit() = s
}

func (u *uringLoop) accepted(r cqe) {
	i := int(uint32(r.tag))
	a, now := &u.acceptors[i], &u.accepts[i]
	if r.res >= 0 {
		a.failures.succeeded(u.Config)
		u.welcome(r.res, i)
	}
	if r.flags&cqeMore != 0 {
		if now.multi && u.ring.files-u.conns.used <= u.reserve {
			now.multi = false
			u.cancel(r.tag)
		}
		return
	}
	now.underWay = false
	if now.last { // the backlog is empty (or, before Linux 6.10, cannot be asked for)
		a.close()
		return
	}
	if e := unix.Errno(-r.res); r.res < 0 && e != unix.ECANCELED && !gone(e) && !u.draining {
		u.rest(a, os.NewSyscallError("accept", e))
	}
	u.armAccept(i)
}

// welcome starts the connection that the kernel has put into slot of the ring's table.
func (u *uringLoop) welcome(slot int32, acceptor int) {
	if !u.admit() {
		refusal := u.acceptors[acceptor].Refusal
		*u.submit() = sqe{op: opSend, flags: sqeFixedFile | sqeSkipSuccess, fd: slot, address: addressOf(refusal), length: uint32(len(refusal)),
			opFlags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL, tag: tagIgnored}
		u.closeSlot(slot)
		return
	}
	u.start(slot, acceptor)
}

// adopt has connections that come as descriptors put into the ring's table.
func (u *uringLoop) adopt(arrivals []arrival) {
	for _, a := range arrivals {
		if !u.admit() {
			rawSend(a.fd, u.acceptors[a.port].Refusal)
			unix.Close(int(a.fd))
			continue
		}
		m := &move{a, a.fd}
		u.moved++
		u.moves[u.moved] = m
		*u.submit() = sqe{op: opFilesUpdate, fd: -1, address: uint64(uintptr(unsafe.Pointer(&m.slot))), length: 1, offset: allocFile,
			tag: tagMove | uint64(u.moved)}
	}
}

// arrived deals with the result of adopt.
func (u *uringLoop) arrived(r cqe) {
	m := u.moves[uint32(r.tag)]
	delete(u.moves, uint32(r.tag))
	unix.Close(int(m.fd))
	if r.res < 1 {
		u.Counters.Current.Add(-1)
		u.Counters.AcceptErrors.Add(1)
		u.Log.Warn("cannot take a connection", "error", os.NewSyscallError("io_uring files update", unix.Errno(-r.res)))
		return
	}
	u.start(m.slot, int(m.port))
}

// start starts a connection that was admitted.
func (u *uringLoop) start(slot int32, acceptor int) {
	a, now := &u.acceptors[acceptor], &u.accepts[acceptor]
	c := u.conns.occupy(slot)
	c.port, c.session, c.last = uint8(acceptor), a.open(), u.sweep
	if a.Peers {
		c.session.(PeerSession).Peer(addressIn(&now.peer))
		now.peer.Addr.Family = unix.AF_UNSPEC // nobody else is taken for this one
	}
	c.readable = u.draining
	if u.forced {
		u.drop(c)
		return
	}
	if a.unix {
		u.watch(c)
	}
	u.proceed(c)
}
