//go:build unix

package std

import (
	"net"
	"syscall"
)

// rawOf is the socket of a connection that is not encrypted.
func rawOf(c net.Conn) syscall.RawConn {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// try writes what the socket takes. False: there is more, and the write is to wait.
func (o *output) try(socket uintptr) bool {
	for len(o.rest) > 0 {
		n, err := syscall.Write(int(socket), o.rest)
		switch {
		case n > 0:
			o.rest = o.rest[n:]
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
