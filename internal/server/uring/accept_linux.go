package uring

import (
	"github.com/katsubushi/katsubushi/v3/internal/peers"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An accept is the kernel's accept operation for one acceptor of a loop.
type accept struct {
	underWay bool
	multi    bool // it goes on by itself
	last     bool // the loop is draining: it takes what is left in the backlog
	watched  bool // the kernel says when a connection waits in the backlog, see watchBacklog

	peer    unix.RawSockaddrAny // of the connection accepted last, if Port.Peers is set; the kernel writes it
	peerLen uint32              // bytes; written by the kernel too
}

// A move is a connection that arrived as a descriptor and is on its way into the ring's table.
type move struct {
	loop.Arrival
	slot int32 // the kernel reads the descriptor here, then writes the slot here
}

// A passing is a connection that gets a descriptor, because only with that can it be passed on to another loop.
type passing struct {
	loop.Arrival
	to *loop.Loop
}

// acceptReserve is how many connections an accept that goes on by itself may bring before it can be
// stopped: a whole backlog. Connections that find no room in the ring's table are lost.
const acceptReserve = 4096 + 256

func (u *ringLoop) acceptAll() {
	for i := range u.Acceptors {
		u.armAccept(i)
	}
}

// armAccept asks for connections of acceptor i: for all that come, or for one when little room is
// left.
func (u *ringLoop) armAccept(i int) {
	a, now := &u.Acceptors[i], &u.accepts[i]
	if now.underWay || a.Resting || now.last || a.Listener < 0 || u.Frozen {
		return
	}
	room := u.ring.files - u.Conns.Used - len(u.passing)
	if room <= 0 && u.Draining {
		a.Close()
		return
	}
	if room <= 0 {
		u.Rest(a, os.NewSyscallError("accept", unix.ENFILE))
		return
	}
	now.multi = room > u.reserve && !a.Peers // there is room for only one peer's address
	s := sqe{op: opAccept, fd: int32(a.Listener), fileIndex: allocFile, tag: tagAccept | uint64(i)}
	if a.Peers && !u.Draining {
		now.peerLen = unix.SizeofSockaddrAny
		s.address, s.offset = uint64(uintptr(unsafe.Pointer(&now.peer))), uint64(uintptr(unsafe.Pointer(&now.peerLen)))
	}
	if now.multi {
		s.mode = acceptMultishot
	}
	if u.Draining {
		now.last = true
		s.mode = acceptMultishot | acceptDontWait
	}
	now.underWay = true
	*u.submit() = s
	u.watchBacklog(i)
}

// watchBacklog asks the kernel to say when a connection has come. Of all the accepts that wait for it,
// also of other processes, the kernel wakes one, which may be that of a process that was killed. It
// wakes everyone who polls.
func (u *ringLoop) watchBacklog(i int) {
	a, now := &u.Acceptors[i], &u.accepts[i]
	if now.watched || u.Draining || !(a.Shared || u.wary) {
		return
	}
	now.watched = true
	*u.submit() = sqe{op: opPollAdd, fd: int32(a.Listener), length: pollMultishot, opFlags: unix.POLLIN,
		tag: tagBacklog | uint64(i)}
}

// waiting handles the result of watchBacklog: it accepts anew, which begins with a look at the backlog.
func (u *ringLoop) waiting(r cqe) {
	now := &u.accepts[uint32(r.tag)]
	if r.flags&cqeMore == 0 {
		now.watched = false
	}
	if r.res >= 0 && now.underWay && !now.last && !u.Frozen {
		u.cancel(tagAccept | r.tag&^uint64(tagKind)) // accepted goes on
	}
}

func (u *ringLoop) accepted(r cqe) {
	i := int(uint32(r.tag))
	a, now := &u.Acceptors[i], &u.accepts[i]
	if r.res >= 0 {
		a.Failures.Succeeded(u.Config)
		u.welcome(r.res, i)
	}
	if r.flags&cqeMore != 0 {
		if now.multi && u.ring.files-u.Conns.Used-len(u.passing) <= u.reserve {
			now.multi = false
			u.cancel(r.tag)
		}
		return
	}
	now.underWay = false
	e := unix.Errno(max(0, -r.res))
	if now.last && e != 0 && !loop.Gone(e) { // the backlog is empty (or, before Linux 6.10, cannot be asked for)
		a.Close()
		return
	}
	now.last = false // it ended early, as when there was no room for more results
	if e != 0 && e != unix.ECANCELED && !loop.Gone(e) && !u.Draining {
		u.Rest(a, os.NewSyscallError("accept", e))
	}
	u.armAccept(i)
}

// welcome starts the connection that the kernel has put into slot of the ring's table, or passes it on.
func (u *ringLoop) welcome(slot int32, acceptor int) {
	new := loop.Arrival{Port: uint8(acceptor)}
	if u.Acceptors[acceptor].Peers {
		now := &u.accepts[acceptor]
		new.Peer = loop.AddressIn(&now.peer)
		now.peer.Addr.Family = unix.AF_UNSPEC // do not give this address to another connection
	}
	if to := u.Place(acceptor); to != u.Loop {
		u.passing[slot] = passing{new, to}
		*u.submit() = sqe{op: opInstall, flags: sqeFixedFile, fd: slot, tag: tagPass | uint64(slot)}
		return
	}
	u.keep(slot, new)
}

// pass handles the result of welcome: the descriptor of a connection in slot. Without one it stays.
func (u *ringLoop) pass(r cqe) {
	slot := int32(uint32(r.tag))
	p := u.passing[slot]
	delete(u.passing, slot)
	switch p.FD = r.res; {
	case r.res < 0:
		u.Keep(p.to)
	case u.Pass(p.to, p.Arrival):
		u.closeSlot(slot)
		return
	default:
		unix.Close(int(r.res))
	}
	u.keep(slot, p.Arrival)
}

// keep starts a new connection, or refuses it.
func (u *ringLoop) keep(slot int32, new loop.Arrival) {
	if !u.Admit() {
		refusal := u.Acceptors[new.Port].Refusal
		*u.submit() = sqe{op: opSend, flags: sqeFixedFile | sqeSkipSuccess, fd: slot, address: addressOf(refusal),
			length: uint32(len(refusal)), opFlags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL, tag: tagIgnored}
		u.closeSlot(slot)
		return
	}
	u.start(slot, new)
}

// adopt puts connections that arrive as descriptors into the ring's table.
func (u *ringLoop) adopt(arrivals []loop.Arrival) {
	for _, a := range arrivals {
		if a.Adopted == nil && !u.Admit() {
			loop.RawSend(a.FD, u.Acceptors[a.Port].Refusal)
			unix.Close(int(a.FD))
			continue
		}
		m := &move{a, a.FD}
		u.moved++
		u.moves[u.moved] = m
		*u.submit() = sqe{op: opFilesUpdate, fd: -1, address: uint64(uintptr(unsafe.Pointer(&m.slot))), length: 1,
			offset: allocFile,
			tag:    tagMove | uint64(u.moved)}
	}
}

// arrived handles the result of adopt.
func (u *ringLoop) arrived(r cqe) {
	m := u.moves[uint32(r.tag)]
	delete(u.moves, uint32(r.tag))
	unix.Close(int(m.FD))
	if r.res < 1 {
		u.Left()
		u.Counters.AcceptErrors.Add(1)
		u.Log.Warn("cannot take a connection", "error", os.NewSyscallError("io_uring files update", unix.Errno(-r.res)))
		return
	}
	u.start(m.slot, m.Arrival)
}

// start starts an admitted connection, or goes on with one that was adopted.
func (u *ringLoop) start(slot int32, from loop.Arrival) {
	a := &u.Acceptors[from.Port]
	c := u.Conns.Occupy(slot)
	c.Port, c.Last, c.Held = from.Port, u.Sweep, u.Frozen
	if from.Adopted != nil {
		u.Resume(c, from.Adopted)
	} else {
		c.Session = a.NewSession()
		if a.Peers {
			c.Session.(server.PeerSession).Peer(from.Peer)
		}
	}
	c.Readable, c.Pours = u.Draining, true
	if u.forced {
		u.drop(c)
		return
	}
	u.begin(c)
}

// begin asks the kernel for what c needs, unless the loop is frozen.
func (u *ringLoop) begin(c *loop.Conn) {
	if c.Held {
		return
	}
	if u.Acceptors[c.Port].Unix && !c.Watching && !c.HungUp {
		u.watch(c)
	}
	if c.Unsent() && !c.Sending {
		u.flush(c)
	}
	u.proceed(c)
}

// learn asks for a descriptor of c, which has none while it is in the ring's table, to ask the kernel for
// its peer. To have the kernel write down the peer of each connection that it accepts would cost those more
// that never need it: one accept could not go on by itself.
func (u *ringLoop) learn(c *loop.Conn) {
	u.asked++
	*u.submit() = sqe{op: opInstall, flags: sqeFixedFile, fd: c.Slot, tag: tagOf(tagPeer, c)}
}

// learned handles the result of learn. Without a descriptor, which there may be none left of, c weighs alone.
func (u *ringLoop) learned(r cqe) {
	u.asked--
	if r.res < 0 {
		return
	}
	if c := u.owner(r.tag); c != nil && c.Peer == 0 {
		u.Learned(c, peers.Of(loop.PeerOf(r.res)))
	}
	unix.Close(int(r.res))
}
