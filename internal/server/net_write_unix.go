//go:build unix

package server

import "syscall"

// prepareWrite sets c.raw.
func (c *netConn) prepareWrite() {
	if s, ok := c.Conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			c.raw, c.attempt = raw, c.tryWrite
		}
	}
}

// tryWrite writes what the socket takes. False: there is more.
func (c *netConn) tryWrite(socket uintptr) bool {
	for len(c.rest) > 0 {
		n, err := syscall.Write(int(socket), c.rest)
		switch {
		case n > 0:
			c.rest = c.rest[n:]
		case err == syscall.EAGAIN:
			if c.account(c.held) {
				return false
			}
			c.err = syscall.ENOMEM
			return true
		case err != syscall.EINTR:
			c.err = err
			return true
		}
	}
	return true
}
