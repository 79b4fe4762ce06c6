// Package uring is the engine of event loops that leave the moving of bytes to io_uring. ring_linux.go drives the ring itself; the
// other files know what a connection is.
package uring

import (
	"context"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Engine is event loops, each on a thread of its own, that leave the moving of bytes to io_uring. Accepting and receiving
// are each asked for once and go on by themselves; all replies of a turn are sent by the same system call that waits for the next
// input. So a turn costs one call, however many requests it answers.
type Engine struct {
	server.Config
	Sizes Sizes
}

// Sizes are how much a loop can do at once. Less is only slower.
type Sizes struct {
	Submissions, Completions uint32 // entries of the ring's queues, powers of 2
	Buffers, MaxBuffers      int    // for input, at first and at most; powers of 2
	BufferSize               int    // bytes of such a buffer
	Replies                  int    // bytes of replies in one turn, at least 2*server.ReplyFull
}

// New makes the engine. Probe tells whether it will run here.
func New(c server.Config) *Engine {
	return &Engine{c, Sizes{
		Submissions: 1024,
		Completions: 8192, // every submission may fail, and as many connections have input
		Buffers:     256, MaxBuffers: 8192, BufferSize: 2048,
		Replies: 512 << 10,
	}}
}

// Name is "uring".
func (e *Engine) Name() string { return "uring" }

// Serve implements Engine. The listeners must be TCP's or unix's.
func (e *Engine) Serve(ctx context.Context, ports []server.Port) error {
	return loop.Serve(ctx, &e.Config, ports, func(l *loop.Loop) (loop.Runner, error) { return newLoop(l, e.Sizes) })
}

// Probe returns nil if this kernel, and whatever confines the process, allow everything that the engine needs, or else the reason
// why not.
func Probe() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := newRing(2, New(server.Config{}).Sizes)
	if err != nil {
		return err
	}
	defer r.close(true)
	return r.tryClose()
}

// A ringLoop is a loop that waits with io_uring.
//
// # Whose slot it is
//
// A connection is a slot of the ring's table of files, and an operation names the slot, not the
// socket. The kernel looks the socket up when it starts the operation. For most that is while enter
// submits it, in the order of the queue. But an operation that may block is handed to another thread
// (io-wq) first, and looks its socket up there, some time later; a shutdown always is such a one.
// If the slot has been closed and filled again by then, the operation meets the next connection:
// its client is hung up on before the first answer.
//
// So the rule is: a slot stays its connection's until every operation on it has completed.
//
//   - Receives, flushes, SHUT_WR and the watch for the client's end have results that are waited for:
//     Conn.Receiving, Sending, Shutting and Watching are set from the submission to the last result.
//     drop cancels them, but not the shutdown, which waits for nobody and ends by itself.
//     closeWhenQuiet closes the slot when none is set.
//   - The sends of a turn, and that of a refusal, must not wait (MSG_DONTWAIT). They are carried out
//     or fail while enter submits them. A failure has a result, which may be looked at after the
//     slot was filled again: send.life tells.
//   - A cancel is carried out while it is submitted, too. It finds its operation by tag. It can't
//     find one of a later connection of the slot, even if the 24 bits of life in a tag have come
//     round: that operation is submitted after the slot is closed, and the close after the cancel.
//   - A close empties the slot while it is submitted, after all that stands before it in the queue.
//     Who fills the slot next comes later: for an accept, and for a socket that adopt brings, the
//     kernel picks a slot that is empty.
//
// All this needs the order of the queue, so no operation here may be linked, drained or sent to
// io-wq on purpose (IOSQE_IO_LINK, IO_DRAIN, ASYNC). One that is handed to io-wq by itself, or whose
// socket is looked up late for any other reason, must have a result and a flag of its own in loop.Conn.
// Results arrive on this thread only (DEFER_TASKRUN), so those flags need no lock.
type ringLoop struct {
	*loop.Loop
	ring    *ring
	accepts []accept // of each acceptor
	reserve int      // places that accepts may fill before they can be stopped
	moves   map[uint32]*move
	moved   uint32 // number of the last of them
	forced  bool   // nobody is waited for any more

	// The replies of a turn, and their sends. A send that the socket did not take whole leaves a result, which must be looked at
	// before replies is used again: see settleSends.
	replies  []byte
	sends    []send
	round    uint16     // number of this round of sends
	promised uint64     // bytes in sends
	scanned  uint32     // results that were looked at for failed sends
	talking  *loop.Conn // whose reply is being made
	reply    []byte     // that reply
}

// A send is a reply on its way.
type send struct {
	slot  int32
	life  uint32
	bytes []byte
}

func newLoop(l *loop.Loop, sizes Sizes) (loop.Runner, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	u := &ringLoop{Loop: l, replies: make([]byte, 0, sizes.Replies), accepts: make([]accept, len(l.Acceptors)), moves: map[uint32]*move{}}
	for i := range l.Acceptors {
		if l.Acceptors[i].Listener >= 0 {
			u.reserve += acceptReserve
		}
	}
	files := int(min(limit.Cur, 1<<20)) // more is not allowed
	if l.MaxConnections > 0 {
		files = min(files, int(min(l.MaxConnections, 1<<20))+u.reserve+64)
	}
	var err error
	u.ring, err = newRing(files, sizes)
	return u, err
}

func (u *ringLoop) Close() {
	quiet := u.Conns.Used == 0 && len(u.moves) == 0
	u.Conns.All(u.Forget)
	u.ring.close(quiet)
	for _, m := range u.moves {
		unix.Close(int(m.FD))
		u.Counters.Current.Add(-1)
	}
}

func (u *ringLoop) Run() error {
	u.acceptAll()
	u.armWake()
	for !u.Draining || u.Conns.Used > 0 || len(u.moves) > 0 || u.Listening() {
		if err := u.wait(len(u.Again) == 0); err != nil {
			return err
		}
		u.TurnBegins()
		u.makeRoom() // if last turn's replies had to come first
		again := len(u.Again)
		for u.ring.seen != u.scanned {
			u.dispatch(u.ring.take())
			u.makeRoom()
		}
		u.serveAgain(again)
		u.endReply()
		u.makeRoom()
		if s := u.Signals.Swap(0); s != 0 {
			u.Raw = loop.MayBlockRaw(u.Loops)
			u.obey(s)
		}
		u.TurnEnds()
	}
	// Whatever was queued last, the closing of connections above all, must still be submitted.
	return u.wait(false)
}

// wait submits what this turn has queued and waits for results. Afterwards no send of the turn is unsettled.
func (u *ringLoop) wait(block bool) error {
	e := u.ring.enter(true, block, u.Raw || !block)
	if e == 0 && block && u.ring.ready() == u.ring.seen { // interrupted; see raw_linux.go of package loop
		u.Raw = loop.MayBlockRaw(u.Loops)
		e = u.ring.enter(true, true, false)
	}
	if e != 0 && e != unix.EBUSY && e != unix.EAGAIN { // these two pass when results are taken
		return os.NewSyscallError("io_uring_enter", e)
	}
	u.settleSends()
	return nil
}

// What a result belongs to: 8 bits say what, 24 which life of the slot, 32 which slot (or which of the sends).
const (
	tagIgnored = iota << 56
	tagAccept  // 32 bits say through which acceptor
	tagMove    // 32 bits say which move
	tagSignal
	tagReceive
	tagSend   // a reply, in the turn in which it was made
	tagFlush  // what was left of one
	tagEnd    // a SHUT_WR of ours
	tagHangUp // the client's

	tagKind  = 0xff << 56
	lifeMask = 1<<24 - 1
)

func tagOf(kind uint64, c *loop.Conn) uint64 {
	return kind | uint64(c.Life&lifeMask)<<32 | uint64(uint32(c.Slot))
}

// owner is the connection that a result belongs to, nil if it is gone.
func (u *ringLoop) owner(tag uint64) *loop.Conn {
	c := u.Conns.At(int32(uint32(tag)))
	if c.Session == nil || c.Life&lifeMask != uint32(tag>>32)&lifeMask {
		return nil
	}
	return c
}

func (u *ringLoop) dispatch(r cqe) {
	switch r.tag & tagKind {
	case tagReceive:
		u.received(r)
	case tagFlush:
		u.flushed(r)
	case tagEnd:
		u.ended(r)
	case tagHangUp:
		u.hungUp(r)
	case tagAccept:
		u.accepted(r)
	case tagMove:
		u.arrived(r)
	case tagSignal:
		u.Silence()
		u.armWake()
	}
}

// submit returns the place for an operation, making room if there is none.
func (u *ringLoop) submit() *sqe {
	for {
		if s := u.ring.next(); s != nil {
			return s
		}
		if e := u.ring.enter(false, false, true); e != 0 {
			runtime.Gosched() // out of memory; there is nothing better to do than to try again
		}
	}
}

func (u *ringLoop) armWake() {
	*u.submit() = sqe{op: opPollAdd, fd: int32(u.Wake), opFlags: unix.POLLIN, tag: tagSignal}
}

func (u *ringLoop) obey(signals uint32) {
	if signals&loop.SignalAccept != 0 {
		for i := range u.Acceptors {
			u.Acceptors[i].Resting = false
		}
		u.acceptAll()
	}
	if signals&loop.SignalGiven != 0 {
		u.adopt(u.Taken())
	}
	if signals&loop.SignalSweep != 0 {
		u.SweepIdle(u.drop)
	}
	if signals&loop.SignalLinger != 0 {
		u.LingeredLong(u.drop)
	}
	if signals&loop.SignalRelieve != 0 {
		u.Strained = true
		u.makeRoom()
	}
	if signals&loop.SignalTrim != 0 {
		u.trim()
	}
	if signals&loop.SignalDrain != 0 {
		u.drain()
	}
	if signals&loop.SignalForce != 0 {
		u.forced = true
		u.Conns.All(u.drop)
	}
}

// trim gives up what is kept for later, and what nobody refers to any more.
func (u *ringLoop) trim() {
	u.Loop.Trim()
	clear(u.sends[len(u.sends):cap(u.sends)])
	if u.ring.overflowed() || u.ring.ready() != u.ring.seen { // there is input in the buffers
		u.Signal(loop.SignalTrim)
		return
	}
	u.ring.trim()
}

func (u *ringLoop) closeSlot(slot int32) {
	*u.submit() = sqe{op: opClose, flags: sqeSkipSuccess, fileIndex: uint32(slot) + 1, tag: tagIgnored}
}

// cancel ends an operation, whose result then says so.
func (u *ringLoop) cancel(tag uint64) {
	*u.submit() = sqe{op: opCancel, flags: sqeSkipSuccess, address: tag, tag: tagIgnored}
}

// drain stops accepting, and receiving for more than what has arrived.
func (u *ringLoop) drain() {
	u.Draining = true
	for i := range u.Acceptors {
		u.Acceptors[i].Resting = false
		if u.accepts[i].underWay {
			u.cancel(tagAccept | uint64(i))
		} else {
			u.armAccept(i)
		}
	}
	u.Conns.All(func(c *loop.Conn) {
		c.Readable = true
		u.proceed(c)
	})
}
