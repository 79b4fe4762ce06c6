package uring

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ring is io_uring: two queues in memory that the kernel and one thread share. The thread puts
// operations (sqe) into the submission queue and enters the kernel. The kernel carries them out and
// puts results (cqe) into the completion queue. This file holds everything about it that is unsafe;
// here is why it is correct.
//
// # Order
//
// Each queue is an array and two counters that only grow. In the submission queue we write the
// entries, then the tail; the kernel reads the tail, then the entries, then writes the head. In the
// completion queue the kernel writes the entries, then the tail; we read the tail, then the
// entries, then write the head, which lets the kernel overwrite them. So a side that has seen a
// counter move must also see what was written before the move: stores of counters release, loads
// acquire. Go's atomics do both. A counter that only we write is also kept in an ordinary field
// (tail, seen, freeTail), and published once per enter, not once per entry. With DEFER_TASKRUN the
// kernel touches the queues only inside enter, on our thread. That makes the order trivial, and it
// is why a plain store is enough for the ring of receive buffers; for the other counters the
// atomics are cheap insurance.
//
// # Lifetime
//
// The kernel gets addresses as numbers, which the garbage collector does not see. Go's heap does
// not move, so an address stays valid while something keeps the object alive:
//
//   - sqes, cqes, the counters, the receive buffers and their ring are not Go memory (mmap). They
//     are unmapped after the ring is closed, and only if no operation can be under way any more.
//   - The replies of a turn are in Go memory. Their sends are carried out, or fail, while enter
//     submits them (MSG_DONTWAIT), and ringLoop.sends refers to them until the results have been
//     checked.
//   - A reply that a socket has not taken is in Conn.Waiting.Out; a send of it may be under way
//     for a long time (opFlush). While Conn.Sending is set, nothing is appended to the buffer, it
//     is not freed, and the connection stays in the table.
//   - The kernel writes a peer's address to ringLoop.accepts, and a slot to a move; both stay
//     until their operations have ended.
//   - No other operation refers to Go memory: the eventfd is polled, not read.
//
// The stack does move. So an sqe never holds the address of anything on it; newRing's arguments are
// on it only during a system call.
type ring struct {
	fd       int
	number   uintptr // the fd's number for enter; cheaper to look up when registered
	entering uintptr // flags of every enter

	memory, sqeMemory      []byte // the queues' counters and cqes; the sqes
	sqHead, sqTail, sqInfo *uint32
	cqHead, cqTail         *uint32
	sqes                   []sqe
	cqes                   []cqe
	tail                   uint32 // of the submission queue, not yet published
	seen                   uint32 // completions taken, not yet published
	files                  int    // size of the ring's file table
	installing             int32  // see install

	buffers, bufferMemory []byte
	free                  []bufferEntry // ring of buffers that the kernel may take
	freeTail              uint16        // not yet published
	provided              int           // buffers used so far, of len(free)
	// Buffers below keep return to the ring after use; least is keep's initial value.
	keep, least int
	absent      []uint16 // the other buffers that are not in the ring
	bufferSize  int
}

// An sqe is struct io_uring_sqe; its fields are named after what the operations here use them for.
type sqe struct {
	op, flags   uint8
	mode        uint16
	fd          int32
	offset      uint64
	address     uint64
	length      uint32
	opFlags     uint32
	tag         uint64
	bufferGroup uint16
	_           uint16
	fileIndex   uint32
	_           [2]uint64
}

// A cqe is struct io_uring_cqe.
type cqe struct {
	tag   uint64
	res   int32
	flags uint32
}

// A bufferEntry is struct io_uring_buf. The tail of the ring of buffers is the last field of its
// first entry.
type bufferEntry struct {
	address uint64
	length  uint32
	id      uint16
	tail    uint16
}

// The kernel's constants, from linux/io_uring.h.
const (
	opNop, opPollAdd, opAccept, opCancel, opClose, opFilesUpdate, opSend, opRecv, opShutdown, opInstall = 0, 6, 13, 14, 19,
		20, 26, 27, 34, 54

	setupCQSize, setupSubmitAll, setupTaskrunFlag, setupSingleIssuer, setupDeferTaskrun = 1 << 3, 1 << 7, 1 << 9,
		1 << 12, 1 << 13

	enterGetEvents, enterRegisteredRing                                          = 1 << 0, 1 << 4
	updateFiles, registerFiles, registerRing, unregisterRing, registerBufferRing = 6, 13, 20, 21, 22
	registerSparse                                                               = 1
	featSingleMmap, featNoDrop, featCQESkip                                      = 1 << 0, 1 << 1, 1 << 11
	offSQRing, offSQEs                                                           = 0, 0x10000000

	sqeFixedFile, sqeBufferSelect, sqeSkipSuccess = 1 << 0, 1 << 5, 1 << 6
	cqeBuffer, cqeMore                            = 1 << 0, 1 << 1
	acceptMultishot, acceptDontWait               = 1 << 0, 1 << 1
	recvMultishot                                 = 1 << 1
	pollMultishot                                 = 1 << 0
	allocFile                                     = 1<<32 - 1
	sqOverflow, sqTaskrun                         = 1 << 1, 1 << 2
)

// bufferGap is the gap between buffers, so that their starts do not compete for the same cache
// lines.
const bufferGap = 64

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFD uint32
	_                                                                  [3]uint32
	sq                                                                 struct {
		head, tail, mask, entries, flags, dropped,
		array, _, _, _ uint32
	}
	cq struct{ head, tail, mask, entries, overflow, cqes, flags, _, _, _ uint32 }
}

// newRing makes a ring with a table for that many files (connections). Only the calling thread may
// use it.
func newRing(files int, sizes Sizes) (r *ring, err error) {
	p := params{cqEntries: sizes.Completions, flags: setupCQSize | setupSubmitAll | setupTaskrunFlag | setupSingleIssuer |
		setupDeferTaskrun}
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(sizes.Submissions), uintptr(unsafe.Pointer(&p)), 0)
	switch e {
	case 0:
	case unix.ENOSYS:
		return nil, errors.New("the kernel has no io_uring")
	case unix.EPERM:
		return nil, errors.New("io_uring is not permitted here (sysctl kernel.io_uring_disabled, or the container's " +
			"seccomp profile)")
	case unix.EINVAL:
		return nil, errors.New("io_uring is too old (Linux 6.13 is needed)")
	default:
		return nil, os.NewSyscallError("io_uring_setup", e)
	}
	r = &ring{fd: int(fd), number: fd, files: files, bufferSize: sizes.BufferSize}
	defer func() {
		if err != nil {
			r.close(true)
			r = nil
		}
	}()
	if want := uint32(featSingleMmap | featNoDrop | featCQESkip); p.features&want != want {
		return r, fmt.Errorf("io_uring lacks features (has %#x, needs %#x)", p.features, want)
	}
	if err := r.mapQueues(&p); err != nil {
		return r, err
	}
	if err := r.registerFiles(); err != nil {
		return r, err
	}
	if err := r.provideBuffers(sizes.Buffers, sizes.MaxBuffers); err != nil {
		return r, err
	}
	r.registerItself()
	return r, r.try()
}

func (r *ring) mapQueues(p *params) (err error) {
	size := max(p.sq.array+4*p.sqEntries, p.cq.cqes+uint32(unsafe.Sizeof(cqe{}))*p.cqEntries)
	if r.memory, err = unix.Mmap(r.fd, offSQRing, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	size = uint32(unsafe.Sizeof(sqe{})) * p.sqEntries
	if r.sqeMemory,
		err = unix.Mmap(r.fd, offSQEs, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	counter := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.memory[offset])) }
	r.sqHead, r.sqTail, r.sqInfo = counter(p.sq.head), counter(p.sq.tail), counter(p.sq.flags)
	r.cqHead, r.cqTail = counter(p.cq.head), counter(p.cq.tail)
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.sqeMemory[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.memory[p.cq.cqes])), p.cqEntries)
	for i := range p.sqEntries { // entry i of the queue always holds sqe i
		*counter(p.sq.array + 4*i) = i
	}
	return nil
}

// registerFiles makes a table for the sockets of connections, which then have no descriptors. An
// operation finds a socket there without counting references, and without the process's descriptor
// table, which is contended between threads.
func (r *ring) registerFiles() error {
	arg := struct {
		nr, flags     uint32
		_, data, tags uint64
	}{nr: uint32(r.files), flags: registerSparse}
	return r.register("files", registerFiles, unsafe.Pointer(&arg), unsafe.Sizeof(arg))
}

// provideBuffers maps the memory for receives and gives the kernel the first part of it. It gets
// more when that runs out: unused memory costs nothing, and used memory should stay in the cache.
func (r *ring) provideBuffers(n, most int) (err error) {
	const anonymous = unix.MAP_ANON | unix.MAP_PRIVATE
	if r.buffers,
		err = unix.Mmap(-1, 0, most*(r.bufferSize+bufferGap), unix.PROT_READ|unix.PROT_WRITE, anonymous); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if r.bufferMemory,
		err = unix.Mmap(-1, 0, most*int(unsafe.Sizeof(bufferEntry{})), unix.PROT_READ|unix.PROT_WRITE,
		anonymous); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.free = unsafe.Slice((*bufferEntry)(unsafe.Pointer(&r.bufferMemory[0])), most)
	arg := struct {
		address uint64
		entries uint32
		group   uint16
		flags   uint16
		_       [3]uint64
	}{address: uint64(uintptr(unsafe.Pointer(&r.bufferMemory[0]))), entries: uint32(most)}
	if err := r.register("buffers", registerBufferRing, unsafe.Pointer(&arg), 1); err != nil {
		return err
	}
	r.least = n
	r.provide(n)
	return nil
}

// install puts a socket into the table; its descriptor may then be closed.
func (r *ring) install(fd, slot int32) error {
	// On the heap: arg holds its address as a number, which does not change when the stack moves.
	r.installing = fd
	arg := ringUpdate{offset: uint32(slot), data: uint64(uintptr(unsafe.Pointer(&r.installing)))}
	return r.register("a file", updateFiles, unsafe.Pointer(&arg), 1)
}

// A ringUpdate is struct io_uring_rsrc_update.
type ringUpdate struct {
	offset uint32
	_      uint32
	data   uint64
}

// registerItself saves enter a look-up. If it fails, the ordinary descriptor works too.
func (r *ring) registerItself() {
	arg := ringUpdate{offset: 1<<32 - 1, data: uint64(r.fd)}
	if r.register("ring", registerRing, unsafe.Pointer(&arg), 1) == nil {
		r.number, r.entering = uintptr(arg.offset), enterRegisteredRing
	}
}

func (r *ring) register(what string, op uintptr, arg unsafe.Pointer, n uintptr) error {
	_, _, e := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), op, uintptr(arg), n, 0, 0)
	if e != 0 {
		return fmt.Errorf("io_uring: registering %s: %w", what, e)
	}
	return nil
}

// try sends a no-op through the ring: in some sandboxes the calls exist but do nothing.
func (r *ring) try() error {
	*r.next() = sqe{op: opNop, tag: 1}
	if e := r.enter(true, true, false); e != 0 {
		return os.NewSyscallError("io_uring_enter", e)
	}
	if r.ready() == r.seen || r.take() != (cqe{tag: 1}) {
		return errors.New("io_uring does not carry out operations")
	}
	return nil
}

// tryClose checks that a socket removed from the table is closed at once. Before Linux 6.13 the
// kernel keeps it open until all operations that began earlier have ended, including those on other
// sockets. So while one connection is silent, connections closed meanwhile stay open and their
// clients wait. The ring must have room for two files. (Debian 12 and Ubuntu 24.04 have such a
// kernel.)
func (r *ring) tryClose() error {
	var pairs [2][2]int
	for slot := range pairs {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socketpair", err)
		}
		pairs[slot] = pair
		defer unix.Close(pair[1])
		err = r.install(int32(pair[0]), int32(slot))
		unix.Close(pair[0])
		if err != nil {
			return err
		}
	}
	// A receive waits for input on the first; the second is closed.
	*r.next() = sqe{op: opRecv, flags: sqeFixedFile | sqeBufferSelect, fd: 0, tag: 1}
	*r.next() = sqe{op: opClose, flags: sqeSkipSuccess, fileIndex: 2, tag: 2}
	if e := r.enter(true, false, false); e != 0 {
		return os.NewSyscallError("io_uring_enter", e)
	}
	_, _, err := unix.Recvfrom(pairs[1][1], make([]byte, 1), unix.MSG_DONTWAIT)
	// The receive must end before its memory does.
	unix.Shutdown(pairs[0][1], unix.SHUT_RDWR)
	for r.ready() == r.seen {
		if e := r.enter(true, true, false); e != 0 {
			return os.NewSyscallError("io_uring_enter", e)
		}
	}
	if err != nil {
		return errors.New("io_uring keeps sockets open that were closed, while others are in use (Linux 6.13 is needed)")
	}
	return nil
}

// close closes the ring, which ends all operations some time later. It unmaps the memory only if
// quiet, when nothing is under way.
func (r *ring) close(quiet bool) {
	if r.entering&enterRegisteredRing != 0 { // it counts as a second descriptor
		arg := ringUpdate{offset: uint32(r.number)}
		r.register("ring", unregisterRing, unsafe.Pointer(&arg), 1)
	}
	unix.Close(r.fd)
	for _, m := range [][]byte{r.memory, r.sqeMemory, r.buffers, r.bufferMemory} {
		if m != nil && quiet {
			unix.Munmap(m)
		}
	}
}

// next returns the place for the next operation to submit, or nil if the queue is full.
func (r *ring) next() *sqe {
	if r.tail-atomic.LoadUint32(r.sqHead) == uint32(len(r.sqes)) {
		return nil
	}
	s := &r.sqes[r.tail&uint32(len(r.sqes)-1)]
	r.tail++
	return s
}

// enter publishes our changes to the queues and submits the operations. With run it also carries
// out what has become possible, such as a receive under way. With wait it returns only when there
// is a result or it is interrupted, which is not an error. raw: do not tell the Go runtime (see
// raw_linux.go of package loop).
func (r *ring) enter(run, wait, raw bool) (e unix.Errno) {
	atomic.StoreUint32(r.sqTail, r.tail)
	atomic.StoreUint32(r.cqHead, r.seen)
	r.free[0].tail = r.freeTail // only enter reads it, on this thread; 16 bits, for which Go has no atomics
	submit, want, flags := uintptr(r.tail-atomic.LoadUint32(r.sqHead)), uintptr(0), r.entering
	if run {
		flags |= enterGetEvents
	}
	if wait {
		want = 1
	}
	if raw {
		_, _, e = unix.RawSyscall6(unix.SYS_IO_URING_ENTER, r.number, submit, want, flags, 0, 0)
	} else {
		_, _, e = unix.Syscall6(unix.SYS_IO_URING_ENTER, r.number, submit, want, flags, 0, 0)
	}
	if e == unix.EINTR {
		e = 0
	}
	return e
}

// ready returns the position up to which results may be taken.
func (r *ring) ready() uint32 { return atomic.LoadUint32(r.cqTail) }

// submitted reports whether the kernel has taken all operations.
func (r *ring) submitted() bool { return atomic.LoadUint32(r.sqHead) == r.tail }

// idle reports whether enter would find nothing to do: the kernel has taken all operations, and none has gone on.
func (r *ring) idle() bool {
	return r.submitted() && atomic.LoadUint32(r.sqInfo)&(sqTaskrun|sqOverflow) == 0
}

// overflowed reports whether the kernel held back results because their queue was full.
func (r *ring) overflowed() bool { return atomic.LoadUint32(r.sqInfo)&sqOverflow != 0 }

// at returns a result without taking it.
func (r *ring) at(i uint32) cqe { return r.cqes[i&uint32(len(r.cqes)-1)] }

// take takes the next result. There must be one.
func (r *ring) take() cqe {
	r.seen++
	return r.at(r.seen - 1)
}

// received returns the input that a receive's result reports, in a buffer that is ours until it is
// given back. A failed receive may have a buffer, too.
func (r *ring) received(c cqe) (id uint16, data []byte) {
	id = uint16(c.flags >> 16)
	return id, r.buffer(id)[:max(c.res, 0)]
}

func (r *ring) buffer(id uint16) []byte {
	from := int(id) * (r.bufferSize + bufferGap)
	return r.buffers[from : from+r.bufferSize]
}

func (r *ring) giveBack(id uint16) {
	if int(id) >= r.keep {
		r.retire(id)
		return
	}
	e := &r.free[int(r.freeTail)%len(r.free)]
	e.address, e.length, e.id = addressOf(r.buffer(id)), uint32(r.bufferSize), id
	r.freeTail++
}

// moreBuffers doubles the number of buffers, up to the limit.
func (r *ring) moreBuffers() { r.provide(min(2*r.keep, len(r.free))) }

// provide sets how many buffers stay in the ring.
func (r *ring) provide(keep int) {
	r.keep = keep
	absent := r.absent
	r.absent = r.absent[:0]
	for _, id := range absent {
		r.giveBack(id)
	}
	for r.provided < keep {
		r.provided++
		r.giveBack(uint16(r.provided - 1))
	}
}

// retire keeps a buffer out of the ring. Once all surplus buffers are out, it frees their memory.
func (r *ring) retire(id uint16) {
	if r.absent = append(r.absent, id); len(r.absent) == r.provided-r.keep {
		r.freeMemory()
	}
}

// trim shrinks the ring to its initial size. No buffer may hold input.
func (r *ring) trim() {
	if r.provided > r.least {
		r.keep = r.least
		r.freeMemory() // again once all surplus buffers have been used once more and are absent
	}
}

// freeMemory frees the memory of buffers that do not return to the ring. Their addresses stay
// valid.
func (r *ring) freeMemory() {
	page := os.Getpagesize()
	if from := (r.keep*(r.bufferSize+bufferGap) + page - 1) / page * page; from < len(r.buffers) {
		unix.Madvise(r.buffers[from:], unix.MADV_DONTNEED)
	}
}

// addressOf returns the address of b's first byte, for an sqe. The caller keeps b alive until the
// operation has ended.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
