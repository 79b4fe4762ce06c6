//go:build unix

package client

import (
	"net"
	"syscall"
)

// prepare finds out whether k can write without waiting.
func (k *conn) prepare() {
	switch plain := k.net.(type) {
	case *net.TCPConn:
		k.file, _ = plain.SyscallConn()
	case *net.UnixConn:
		k.file, _ = plain.SyscallConn()
	}
	k.write = func(fd uintptr) bool {
		k.wrote, k.werr = syscall.Write(int(fd), k.out)
		return true
	}
}

// try writes as much as can be written without waiting, so that no caller waits for a server that
// does not read.
func (k *conn) try(out []byte) (int, error) {
	if k.file == nil {
		return 0, nil
	}
	if err := k.file.Write(k.write); err != nil {
		return 0, err
	}
	if k.werr == syscall.EAGAIN || k.werr == syscall.EINTR {
		return 0, nil
	}
	return max(k.wrote, 0), k.werr
}
