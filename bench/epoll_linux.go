package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An epollDriver uses one system call for each send and receive, and asks epoll which sockets have
// input. It works on every Linux; where io_uring is allowed, uringDriver costs less.
//
// The system calls are raw: the runtime need not know of calls that never block.
type epollDriver struct {
	loop   *loop
	epfd   int
	events [256]unix.EpollEvent
	buf    []byte
}

func (d *epollDriver) start(l *loop) (err error) {
	d.loop, d.buf = l, make([]byte, readBuffer)
	if d.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	for i := range l.streams {
		// Edge-triggered: no second look at a socket that was read empty.
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i)}
		if err := unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, int(l.streams[i].conn), &ev); err != nil {
			return fmt.Errorf("epoll_ctl: %w", err)
		}
	}
	return nil
}

func (d *epollDriver) close() {
	if d.epfd > 0 {
		unix.Close(d.epfd)
	}
}

func (d *epollDriver) send(s *stream) error {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.conn), uintptr(unsafe.Pointer(unsafe.SliceData(s.batch))),
		uintptr(len(s.batch)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return fmt.Errorf("send: %w", errno)
	}
	return allSent(int(n), s)
}

// allSent is an error for a send that the kernel did not take as a whole.
func allSent(n int, s *stream) error {
	if n != len(s.batch) {
		return fmt.Errorf("the kernel took %d of %d bytes to send", n, len(s.batch))
	}
	return nil
}

func (d *epollDriver) turn() (received int, err error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(d.epfd), uintptr(unsafe.Pointer(&d.events[0])),
		uintptr(len(d.events)), 0, 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, fmt.Errorf("epoll_wait: %w", errno)
	}
	for _, ev := range d.events[:n] {
		if err := d.receive(&d.loop.streams[ev.Fd]); err != nil {
			return 0, err
		}
	}
	return int(n), nil
}

// receive takes all that a stream has received.
func (d *epollDriver) receive(s *stream) error {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.conn), uintptr(unsafe.Pointer(&d.buf[0])),
			uintptr(len(d.buf)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("receive: %w", errno)
		}
		if err := d.loop.take(s, d.buf[:n]); err != nil {
			return err
		}
		if int(n) < len(d.buf) { // a short read has emptied the socket
			return nil
		}
	}
}
