//go:build unix

package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// HasInput reports whether a socket has something to read or to accept. A deadline that is over ends a read before
// it has looked, and on a busy machine a goroutine may come to its read that late. So whoever drains a socket asks
// here before it believes that the socket is empty. Of an encrypted connection it asks the socket below.
func HasInput(socket any) (has bool) {
	if t, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = t.NetConn()
	}
	s, ok := socket.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		has = err == nil && n > 0 && p[0].Revents&unix.POLLIN != 0
	})
	return err == nil && has
}
