//go:build unix

package std

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// duplicate makes another descriptor of a socket.
func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

func closeSocket(fd int) { syscall.Close(fd) }

// rawOf returns the socket of an unencrypted connection.
func rawOf(c net.Conn) syscall.RawConn {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// try writes what the socket takes. It returns false if there is more and the write must wait.
func (o *output) try(socket uintptr) bool {
	for len(o.rest) > 0 {
		n, err := syscall.Write(int(socket), o.rest)
		switch {
		case n > 0:
			o.rest = o.rest[n:]
			o.c.touch() // now, not when the write ends: that may be a time-out later
		case err == syscall.EAGAIN:
			if o.c.account(cap(o.buf)) {
				return false
			}
			o.err = syscall.ENOMEM
			return true
		case err != syscall.EINTR:
			o.err = err
			return true
		}
	}
	return true
}
