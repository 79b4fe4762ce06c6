package main

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A uringDriver makes one system call per turn, however many connections there are: it submits all
// sends and returns with everything that has arrived. So the generator costs less than any server
// that it measures. It shares no code with the daemon's engine: a mistake in a shared ring would hide
// itself on both sides.
type uringDriver struct {
	loop *loop
	ring *ring
}

// sendFailed marks the completion of a send, of which only failures have one. The rest of the user
// data is the stream's slot.
const sendFailed = 1 << 32

func (d *uringDriver) start(l *loop) (err error) {
	d.loop = l
	fds := make([]int32, len(l.streams))
	for i := range l.streams {
		fds[i] = int32(l.streams[i].conn)
	}
	if d.ring, err = newRing(fds); err != nil {
		return err
	}
	for i := range l.streams {
		if err := d.receive(i); err != nil {
			return err
		}
	}
	return nil
}

func (d *uringDriver) close() {
	if d.ring != nil {
		d.ring.close()
	}
}

// receive asks for all that will ever arrive on a stream.
func (d *uringDriver) receive(slot int) error {
	e, err := d.ring.prepare()
	if err != nil {
		return err
	}
	e.opcode, e.fd, e.userData = opRecv, int32(slot), uint64(slot)
	e.flags, e.ioprio = sqeFixedFile|sqeBufferSelect, recvMultishot
	return nil
}

// send leaves the batch where it is until the next turn, like the stream itself.
func (d *uringDriver) send(s *stream) error {
	e, err := d.ring.prepare()
	if err != nil {
		return err
	}
	e.opcode, e.fd, e.userData = opSend, int32(s.slot), uint64(s.slot)|sendFailed
	e.addr, e.length = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.batch)))), uint32(len(s.batch))
	e.opFlags = unix.MSG_DONTWAIT | unix.MSG_WAITALL | unix.MSG_NOSIGNAL
	e.flags = sqeFixedFile | sqeSkipSuccess
	return nil
}

func (d *uringDriver) turn() (received int, err error) {
	r := d.ring
	if err := r.enter(); err != nil {
		return 0, err
	}
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	for ; head != tail; head++ {
		c := r.cqes[head%uint32(len(r.cqes))]
		atomic.StoreUint32(r.cqHead, head+1)
		if err := d.complete(c); err != nil {
			return 0, err
		}
		received++
	}
	return received, nil
}

func (d *uringDriver) complete(c cqe) error {
	s := &d.loop.streams[uint32(c.userData)]
	if c.userData&sendFailed != 0 {
		if c.res < 0 {
			return fmt.Errorf("send: %w", unix.Errno(-c.res))
		}
		return allSent(int(c.res), s)
	}
	again := c.flags&cqeMore == 0 // the kernel has stopped to receive
	switch {
	case c.res == -int32(unix.ENOBUFS):
	case c.res < 0:
		return fmt.Errorf("receive: %w", unix.Errno(-c.res))
	case c.flags&cqeBuffer == 0:
		return d.loop.take(s, nil)
	default:
		id := uint16(c.flags >> cqeBufferShift)
		err := d.loop.take(s, d.ring.buffer(id, c.res))
		d.ring.giveBack(id)
		if err != nil {
			return err
		}
	}
	if again {
		return d.receive(s.slot)
	}
	return nil
}
