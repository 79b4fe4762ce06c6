package server

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"strings"
	"syscall"

	reuseport "github.com/kavu/go_reuseport"
	"golang.org/x/sys/unix"
)

const maxListeners = math.MaxInt

// share lets listenShared open more listeners on the address of ln.
func share(ln *net.TCPListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	return shared("", "", raw)
}

var shared = control(func(fd int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
})

// listenShared opens one more listener on an address. It names the address family, because for "tcp"
// without a host the library listens on IPv4 only.
func listenShared(addr *net.TCPAddr) (net.Listener, error) {
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
	lc := net.ListenConfig{Control: shared}
	lc.SetMultipathTCP(false)
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

// errFree ends a probe: the address could be bound.
var errFree = errors.New("server: the address is free")

// probe binds an address and does not listen.
func probe(network, addr string) error {
	lc := net.ListenConfig{Control: func(family, address string, c syscall.RawConn) error {
		return control(func(fd int) error { return try(fd, family, address) })("", "", c)
	}}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(context.Background(), network, addr)
	if err == nil { // there is no such address of this network: Control was not called
		ln.Close()
	}
	if errors.Is(err, errFree) {
		return nil
	}
	return err
}

// try binds a new socket of a family (tcp4, tcp6 or unix) to an address as package net has resolved it. The
// error is errFree, or why not.
func try(fd int, family, address string) error {
	to, err := sockaddr(family, address)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, to); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if family == "unix" && !strings.HasPrefix(address, "@") {
		os.Remove(address)
	}
	return errFree
}

func sockaddr(family, address string) (unix.Sockaddr, error) {
	if family == "unix" {
		return &unix.SockaddrUnix{Name: address}, nil
	}
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if family == "tcp4" {
		to := &unix.SockaddrInet4{Port: a.Port}
		copy(to.Addr[:], a.IP.To4())
		return to, nil
	}
	to := &unix.SockaddrInet6{Port: a.Port}
	if !a.IP.IsUnspecified() { // all addresses may be written as 0.0.0.0
		copy(to.Addr[:], a.IP.To16())
	}
	if a.Zone != "" {
		i, err := net.InterfaceByName(a.Zone)
		if err != nil {
			return nil, err
		}
		to.ZoneId = uint32(i.Index)
	}
	return to, nil
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
