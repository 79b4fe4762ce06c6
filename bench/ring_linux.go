package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is needed of linux/io_uring.h.
const (
	setupCQSize       = 1 << 3
	setupSubmitAll    = 1 << 7
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	offSQRing, offCQRing, offSQEs = 0, 0x8000000, 0x10000000

	enterGetEvents = 1

	registerFiles      = 2
	unregisterFiles    = 3
	registerPbuf       = 22
	registerSyncCancel = 24

	cancelAll, cancelAny = 1, 1 << 2

	opSend, opRecv = 26, 27

	sqeFixedFile, sqeBufferSelect, sqeSkipSuccess = 1, 1 << 5, 1 << 6
	recvMultishot                                 = 1 << 1 // in ioprio

	cqeBuffer, cqeMore = 1, 2
	cqeBufferShift     = 16
)

// An sqe is a request to the kernel.
type sqe struct {
	opcode, flags   uint8
	ioprio          uint16
	fd              int32
	off, addr       uint64
	length, opFlags uint32
	userData        uint64
	bufGroup, _     uint16
	_               uint32
	_, _            uint64
}

// A cqe is what became of one.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFd uint32
	_                                                                  [3]uint32
	sqOff                                                              struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cqOff struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// A ring is an io_uring with a ring of buffers for what is received. It belongs to the thread that
// made it.
type ring struct {
	fd             int
	sq, cq, memory []byte // mapped
	sqes           []sqe
	cqes           []cqe
	sqHead, sqTail *uint32
	cqHead, cqTail *uint32
	tail           uint32 // of the submissions, those included that the kernel has not been shown

	bufRing   []pbuf // mapped
	bufMemory []byte // mapped
	bufTail   uint16
}

// A pbuf is an entry of the buffer ring. The first one's last field is the ring's tail.
type pbuf struct {
	addr   uint64
	length uint32
	id     uint16
	tail   uint16
}

const (
	ringEntries   = 2048
	ringBuffers   = 1024
	ringBuffer    = 4096            // bytes of a buffer
	bufferSpacing = ringBuffer + 64 // so that not all begin at the same place of the cache
)

func newRing(conns []int32) (*ring, error) {
	p := ringParams{cqEntries: 8 * ringEntries,
		flags: setupCQSize | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, ringEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r := &ring{fd: int(fd)}
	if err := errors.Join(r.mapRings(&p), r.mapBuffers()); err != nil {
		r.close()
		return nil, err
	}
	reg := struct {
		addr    uint64
		entries uint32
		group   uint16
		_       uint16
		_       [3]uint64
	}{addr: uint64(uintptr(unsafe.Pointer(&r.bufRing[0]))), entries: ringBuffers}
	err := r.register(registerPbuf, unsafe.Pointer(&reg), 1)
	if err == nil {
		err = r.register(registerFiles, unsafe.Pointer(&conns[0]), len(conns))
	}
	if err != nil {
		r.close()
		return nil, err
	}
	for i := range ringBuffers {
		r.giveBack(uint16(i))
	}
	return r, nil
}

func (r *ring) register(what uintptr, arg unsafe.Pointer, n int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), what, uintptr(arg), uintptr(n), 0,
		0); errno != 0 {
		return fmt.Errorf("io_uring_register %d: %w", what, errno)
	}
	return nil
}

func (r *ring) mapRings(p *ringParams) error {
	var err1, err2, err3 error
	var entries []byte
	r.sq, err1 = r.mmap(offSQRing, int(p.sqOff.array+4*p.sqEntries))
	r.cq, err2 = r.mmap(offCQRing, int(p.cqOff.cqes+16*p.cqEntries))
	entries, err3 = r.mmap(offSQEs, int(64*p.sqEntries))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	r.memory = entries
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&entries[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.cq[p.cqOff.cqes])), p.cqEntries)
	word := func(b []byte, off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[off])) }
	r.sqHead, r.sqTail = word(r.sq, p.sqOff.head), word(r.sq, p.sqOff.tail)
	r.cqHead, r.cqTail = word(r.cq, p.cqOff.head), word(r.cq, p.cqOff.tail)
	for i := range p.sqEntries {
		*word(r.sq, p.sqOff.array+4*i) = i
	}
	return nil
}

func (r *ring) mmap(off int64, size int) ([]byte, error) {
	b, err := unix.Mmap(r.fd, off, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return b, nil
}

// mapBuffers makes the buffers outside Go's heap, where they keep their address and the collector
// has nothing to do with them.
func (r *ring) mapBuffers() (err error) {
	const anonymous = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	size := int(unsafe.Sizeof(pbuf{})) * ringBuffers
	head, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, anonymous)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	r.bufRing = unsafe.Slice((*pbuf)(unsafe.Pointer(&head[0])), ringBuffers)
	if r.bufMemory,
		err = unix.Mmap(-1, 0, ringBuffers*bufferSpacing, unix.PROT_READ|unix.PROT_WRITE, anonymous); err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	return nil
}

// close ends what is under way, and only then gives up the ring: the kernel would do so in its own
// time, and keep the connections open until then.
func (r *ring) close() {
	all := struct {
		_       uint64
		_       int32
		flags   uint32
		timeout [2]int64
		_       [4]uint64
	}{flags: cancelAll | cancelAny, timeout: [2]int64{-1, -1}}
	for errors.Is(r.register(registerSyncCancel, unsafe.Pointer(&all), 1), unix.EINTR) {
	}
	// only now the operations end
	for r.bufRing != nil && r.enter() == nil && *r.cqHead != atomic.LoadUint32(r.cqTail) {
		atomic.StoreUint32(r.cqHead, atomic.LoadUint32(r.cqTail))
	}
	r.register(unregisterFiles, nil, 0)
	unix.Close(r.fd)
	for _, m := range [][]byte{r.sq, r.cq, r.memory, r.bufMemory} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	if r.bufRing != nil {
		head := unsafe.Slice((*byte)(unsafe.Pointer(&r.bufRing[0])), int(unsafe.Sizeof(pbuf{}))*ringBuffers)
		unix.Munmap(head)
	}
}

// prepare returns the next request to fill in; the kernel sees it with the next enter.
func (r *ring) prepare() (*sqe, error) {
	if r.tail-atomic.LoadUint32(r.sqHead) == uint32(len(r.sqes)) {
		if err := r.enter(); err != nil {
			return nil, err
		}
	}
	e := &r.sqes[r.tail%uint32(len(r.sqes))]
	*e = sqe{}
	r.tail++
	return e, nil
}

// enter submits what was prepared and lets the kernel post what has happened. It waits for nothing.
func (r *ring) enter() error {
	atomic.StoreUint32(r.sqTail, r.tail)
	// The number must be exact: asked to take more than there is, the kernel takes that and does
	// not look for events.
	n := r.tail - atomic.LoadUint32(r.sqHead)
	_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(n), 0, enterGetEvents, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return fmt.Errorf("io_uring_enter: %w", errno)
	}
	return nil
}

// buffer is what the kernel put into one of the buffers.
func (r *ring) buffer(id uint16, n int32) []byte {
	return r.bufMemory[int(id)*bufferSpacing:][:n]
}

// giveBack lets the kernel use a buffer again.
func (r *ring) giveBack(id uint16) {
	b := &r.bufRing[r.bufTail%ringBuffers]
	b.addr, b.length, b.id = uint64(uintptr(unsafe.Pointer(&r.bufMemory[int(id)*bufferSpacing]))), ringBuffer, id
	r.bufTail++
	// The tail shares its 32 bits with the first entry's id, which no other thread writes. There is
	// no atomic store of 16 bits.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.bufRing[0].id)), uint32(r.bufRing[0].id)|uint32(r.bufTail)<<16)
}

// probeRing tells whether this machine lets us have such rings.
func probeRing() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	runtime.LockOSThread() // the ring is its thread's
	defer runtime.UnlockOSThread()
	r, err := newRing([]int32{int32(fd)})
	if err != nil {
		return err
	}
	r.close()
	return nil
}
