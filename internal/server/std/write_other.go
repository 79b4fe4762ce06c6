//go:build !unix

package std

import (
	"errors"
	"net"
	"syscall"
)

// rawOf returns nil: on this system a socket cannot be tried without blocking.
func rawOf(net.Conn) syscall.RawConn { return nil }

// duplicate fails: on this system no connection moves.
func duplicate(int) (int, error) { return 0, errors.ErrUnsupported }

func closeSocket(int) {}

func (*output) try(uintptr) bool { return true }
