package server

import (
	"context"
	"io/fs"
	"math"
	"net"
	"syscall"

	reuseport "github.com/kavu/go_reuseport"
	"golang.org/x/sys/unix"
)

const maxListeners = math.MaxInt

// listenReuseport opens one of several listeners on addr. It names the address family, because for
// "tcp" without a host the library listens on IPv4 only.
func listenReuseport(addr *net.TCPAddr) (net.Listener, error) {
	network := "tcp6"
	if addr.IP.To4() != nil {
		network = "tcp4"
	}
	ln, err := reuseport.Listen(network, addr.String())
	if err != nil || network == "tcp4" || !addr.IP.IsUnspecified() {
		return ln, err
	}
	only, err := v6only(ln.(*net.TCPListener))
	if err != nil {
		ln.Close()
		return nil, err
	}
	if !only {
		return ln, nil
	}
	// This host's default (net.ipv6.bindv6only) would exclude IPv4. Package net overrides that
	// default, but the option must be set before the address is bound.
	ln.Close()
	lc := net.ListenConfig{Control: control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})}
	return lc.Listen(context.Background(), "tcp", addr.String())
}

func v6only(ln *net.TCPListener) (only bool, err error) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return false, err
	}
	err = control(func(fd int) error {
		v, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		only = v != 0
		return err
	})("", "", raw)
	return only, err
}

// beforeBind sets a unix socket's permissions before the socket has a name, so that other users
// cannot connect at any moment.
func beforeBind(mode fs.FileMode) func(network, address string, c syscall.RawConn) error {
	return control(func(fd int) error { return unix.Fchmod(fd, uint32(mode.Perm())) })
}

func control(f func(fd int) error) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
			return e
		}
		return err
	}
}
