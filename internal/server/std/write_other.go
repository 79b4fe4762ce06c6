//go:build !unix

package std

import (
	"net"
	"syscall"
)

// rawOf is nil: here a socket cannot be tried.
func rawOf(net.Conn) syscall.RawConn { return nil }

func (*output) try(uintptr) bool { return true }
