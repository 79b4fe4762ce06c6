// Package uring is the engine whose event loops let io_uring move the bytes. ring_linux.go drives
// the ring itself; the other files deal with connections.
package uring

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Engine runs event loops, each on its own thread, that let io_uring move the bytes. A loop asks
// once for accepting and once per connection for receiving; both then go on by themselves. The
// system call that waits for the next input also sends all replies of a turn. So a turn costs one
// call, however many requests it answers.
type Engine struct {
	server.Config
	loop.Control
	Sizes Sizes
}

// Sizes limits how much a loop can do at once. Smaller sizes are only slower.
type Sizes struct {
	Submissions, Completions uint32 // entries of the ring's queues; powers of 2
	Buffers, MaxBuffers      int    // number of input buffers, at first and at most; powers of 2
	BufferSize               int    // bytes of one input buffer
	Replies                  int    // bytes of replies in one turn, at least 2*server.ReplyFull
}

// New makes the engine. Probe tells whether it can run here.
func New(c server.Config) *Engine {
	return &Engine{Config: c, Sizes: Sizes{
		Submissions: 1024,
		Completions: 8192, // every submission may fail, and as many connections may have input
		Buffers:     256, MaxBuffers: 8192, BufferSize: 2048,
		Replies: 512 << 10,
	}}
}

// Name returns "uring".
func (e *Engine) Name() string { return "uring" }

// Serve implements Engine. The listeners must be TCP or unix listeners.
func (e *Engine) Serve(ctx context.Context, ports []server.Port) error {
	return loop.Serve(ctx, &e.Config, &e.Control, ports, func(l *loop.Loop) (loop.Runner, error) {
		return newLoop(l, e.Sizes)
	})
}

// Probe returns nil if the kernel, and whatever confines this process, allow everything that the
// engine needs with so many loops; otherwise it returns the reason. All their rings are made at the same time,
// because there may be memory for some of them only.
func Probe(loops int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range max(loops, 1) {
		r, err := makeRing(2, New(server.Config{}).Sizes)
		if err != nil {
			return err
		}
		defer r.close(true)
		if err := r.tryClose(); err != nil {
			return err
		}
	}
	return nil
}

// returned is how long the kernel may take to give the memory of a closed ring back.
const returned = 250 * time.Millisecond

// makeRing is newRing after rings were closed, such as Probe's. They count as locked memory a moment longer.
func makeRing(files int, sizes Sizes) (*ring, error) {
	for deadline := time.Now().Add(returned); ; time.Sleep(time.Millisecond) {
		r, err := newRing(files, sizes)
		if !errors.Is(err, unix.ENOMEM) || time.Now().After(deadline) {
			return r, err
		}
	}
}

// A ringLoop is an event loop that waits with io_uring.
//
// # Who owns a slot
//
// A connection occupies a slot of the ring's table of files, and an operation names the slot, not
// the socket. The kernel looks the socket up when it starts the operation. Usually it does so while
// enter submits the operation, in the order of the queue. But it hands an operation that may block
// to another thread (io-wq) first, and that thread looks the socket up some time later; a shutdown
// always takes this way. If the slot has been closed and reused by then, the operation hits the
// next connection, which is shut down before its first reply.
//
// So the rule is: a slot belongs to its connection until every operation on it has completed.
//
//   - Receives, flushes, SHUT_WR and the watch for the client's end have results, and the loop
//     waits for them: Conn.Receiving, Sending, Shutting and Watching are set from the submission to
//     the last result. drop cancels these operations, except the shutdown, which waits for nothing
//     and ends by itself. closeWhenQuiet closes the slot when none of them is set.
//   - The sends of a turn, and the send of a refusal, must not wait (MSG_DONTWAIT). They are
//     carried out, or fail, while enter submits them. A failure leaves a result; the loop may see
//     it only after the slot was reused, and send.life shows that.
//   - A connection gets a descriptor (learn, or pass it on) while that is submitted, too. The result says whose it is.
//   - A cancel is carried out while it is submitted, too. It finds its operation by tag. It
//     cannot find one of a later connection in the slot, even if the 24 bits of life in a tag have
//     wrapped around: that operation is submitted after the close, and the close after the cancel.
//   - A close empties the slot while it is submitted, after everything before it in the queue.
//     The slot is reused only later: the kernel picks an empty slot for an accept, and for a socket
//     that adopt brings.
//
// All this depends on the order of the queue, so no operation here may be linked, drained or sent
// to io-wq on purpose (IOSQE_IO_LINK, IO_DRAIN, ASYNC). If the kernel hands an operation to io-wq
// by itself, or looks its socket up late for any other reason, that operation must have a result,
// and a flag of its own in loop.Conn. Results arrive on this thread only (DEFER_TASKRUN), so those
// flags need no lock.
type ringLoop struct {
	*loop.Loop
	ring    *ring
	accepts []accept // one per acceptor
	reserve int      // slots that accepts may fill before they can be stopped
	moves   map[uint32]*move
	moved   uint32            // number of the last move
	passing map[int32]passing // by the slot
	asked   int               // descriptors that learn has asked for and that have not come yet
	forced  bool              // wait for nobody any more
	wary    bool              // all ports are as if Shared: the loop was frozen, and another process had them
	departs *departure        // connections are being given away; nil = none

	// The replies of a turn, and their sends. If the socket does not take all of a send, the send
	// leaves a result. The loop must look at that result before it reuses replies: see settleSends.
	replies  []byte
	sends    []send
	round    uint16     // number of this round of sends
	promised uint64     // total bytes in sends
	scanned  uint32     // results already checked for failed sends
	talking  *loop.Conn // connection whose reply is being built
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
	u := &ringLoop{Loop: l, replies: make([]byte, 0, sizes.Replies), accepts: make([]accept, len(l.Acceptors)),
		moves: map[uint32]*move{}, passing: map[int32]passing{}}
	for i := range l.Acceptors {
		if l.Acceptors[i].Listener >= 0 {
			u.reserve += acceptReserve
		}
	}
	files := int(min(limit.Cur, 1<<20)) // the kernel allows no more
	if l.MaxConnections > 0 {
		files = min(files, int(min(l.MaxConnections, 1<<20))+u.reserve+64)
	}
	l.Learn = u.learn
	var err error
	u.ring, err = makeRing(files, sizes)
	return u, err
}

func (u *ringLoop) Close() {
	quiet := u.Conns.Used == 0 && len(u.moves)+len(u.passing) == 0
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
	for !u.Draining || u.Conns.Used > 0 || len(u.moves)+len(u.passing)+u.asked > 0 || u.Listening() {
		if err := u.wait(len(u.Again) == 0 && u.departs == nil); err != nil {
			return err
		}
		u.TurnBegins()
		u.makeRoom() // last turn's replies may have had to go first
		again := len(u.Again)
		for u.ring.seen != u.scanned {
			u.dispatch(u.ring.take())
			u.makeRoom()
		}
		u.serveAgain(again)
		u.endReply()
		u.makeRoom()
		if s := u.Signals.Swap(0); s != 0 {
			u.Called(s)
			u.obey(s)
		}
		if u.departs != nil {
			u.depart()
		}
		u.TurnEnds()
	}
	// What was queued last must still be submitted, above all the closing of connections.
	return u.wait(false)
}

// wait submits what this turn has queued and waits for results. Afterwards all sends of the turn
// are settled.
func (u *ringLoop) wait(block bool) error {
	if block && u.Spin(u.look) {
		u.settleSends()
		return nil
	}
	e := u.ring.enter(true, block, u.Raw || !block)
	if e == 0 && block && u.ring.ready() == u.ring.seen && !u.Interrupted() { // see raw_linux.go of package loop
		e = u.ring.enter(true, true, false)
	}
	if e != 0 && e != unix.EBUSY && e != unix.EAGAIN { // both go away once results are taken
		return os.NewSyscallError("io_uring_enter", e)
	}
	u.settleSends()
	return nil
}

// look submits what this turn has queued, and reports whether there are results. An error is left to a wait.
func (u *ringLoop) look() bool {
	if !u.ring.idle() {
		u.ring.enter(true, false, true)
	}
	return u.ring.ready() != u.ring.seen
}

// A tag says what a result belongs to: 8 bits for the kind, 24 for the life of the slot, 32 for the
// slot (or for the index of the send).
const (
	tagIgnored = iota << 56
	tagAccept  // 32 bits: the acceptor
	tagMove    // 32 bits: the move
	tagSignal
	tagReceive
	tagSend    // a reply, sent in the turn that built it
	tagFlush   // what was left of a reply
	tagEnd     // our SHUT_WR
	tagHangUp  // the client's end
	tagBacklog // a connection waits; 32 bits: the acceptor
	tagInstall // 32 bits: index in departure.leaving
	tagPeer    // a descriptor to ask for the peer
	tagPass    // a descriptor to pass on; 32 bits: the slot

	tagKind  = 0xff << 56
	lifeMask = 1<<24 - 1
)

func tagOf(kind uint64, c *loop.Conn) uint64 {
	return kind | uint64(c.Life&lifeMask)<<32 | uint64(uint32(c.Slot))
}

// owner returns the connection that a result belongs to, or nil if it is gone.
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
	case tagBacklog:
		u.waiting(r)
	case tagMove:
		u.arrived(r)
	case tagInstall:
		u.installed(r)
	case tagPeer:
		u.learned(r)
	case tagPass:
		u.pass(r)
	case tagSignal:
		u.Silence()
		u.armWake()
	}
}

// submit returns the place for an operation, and makes room if there is none.
func (u *ringLoop) submit() *sqe {
	for {
		if s := u.ring.next(); s != nil {
			return s
		}
		if e := u.ring.enter(false, false, true); e != 0 {
			runtime.Gosched() // out of memory; all it can do is try again
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
		arrivals, orders := u.Taken()
		u.adopt(arrivals)
		u.follow(orders)
	}
	if signals&loop.SignalSweep != 0 {
		u.SweepIdle(u.drop)
	}
	if signals&loop.SignalLinger != 0 {
		u.LingeredLong(u.drop)
	}
	if signals&(loop.SignalWake|loop.SignalPoll|loop.SignalAsk) != 0 {
		u.Unpark(signals, u.lookAfter)
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

// trim frees what is kept for reuse, and what nothing refers to any more.
func (u *ringLoop) trim() {
	u.Loop.Trim()
	clear(u.sends[len(u.sends):cap(u.sends)])
	if u.ring.overflowed() || u.ring.ready() != u.ring.seen { // some buffers hold input
		u.Signal(loop.SignalTrim)
		return
	}
	u.ring.trim()
}

func (u *ringLoop) closeSlot(slot int32) {
	*u.submit() = sqe{op: opClose, flags: sqeSkipSuccess, fileIndex: uint32(slot) + 1, tag: tagIgnored}
}

// cancel ends an operation; its result then says so.
func (u *ringLoop) cancel(tag uint64) {
	*u.submit() = sqe{op: opCancel, flags: sqeSkipSuccess, address: tag, tag: tagIgnored}
}

// drain stops accepting, and stops receiving beyond what has arrived.
func (u *ringLoop) drain() {
	if u.departs != nil { // Control no longer waits for it
		u.thaw()
	}
	u.Draining = true
	for i := range u.Acceptors {
		u.Acceptors[i].Resting = false
		if u.accepts[i].watched { // it would keep the listener open
			u.cancel(tagBacklog | uint64(i))
		}
		if u.Frozen {
			u.Acceptors[i].Close() // nothing is under way, and what waits there is not for this loop
		} else if u.accepts[i].underWay {
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
