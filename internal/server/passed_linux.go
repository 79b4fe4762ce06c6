package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// PassedAddr returns the address of a socket that another process has opened, or why this program
// cannot use it: it must be a TCP or unix socket that listens, or a UDP socket. It is a *net.TCPAddr,
// *net.UnixAddr or *net.UDPAddr. Children do not inherit the descriptor from now on.
func PassedAddr(fd int) (net.Addr, error) {
	unix.CloseOnExec(fd)
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not a socket", fd)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	var ip net.IP
	var port int
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		ip, port = net.IP(a.Addr[:]), a.Port
	case *unix.SockaddrInet6:
		ip, port = net.IP(a.Addr[:]), a.Port
	case *unix.SockaddrUnix:
		if kind != unix.SOCK_STREAM {
			return nil, errors.New("it is a unix socket of another type than SOCK_STREAM")
		}
		return &net.UnixAddr{Name: a.Name, Net: "unix"}, listening(fd)
	default:
		return nil, errors.New("it is a socket of another family than IPv4, IPv6 and unix")
	}
	switch kind {
	case unix.SOCK_STREAM:
		return &net.TCPAddr{IP: ip, Port: port}, listening(fd)
	case unix.SOCK_DGRAM:
		return &net.UDPAddr{IP: ip, Port: port}, nil
	}
	return nil, errors.New("it is a socket of another type than SOCK_STREAM and SOCK_DGRAM")
}

func listening(fd int) error {
	on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if on == 0 {
		return errors.New("it does not listen: connections are accepted from sockets that do")
	}
	return nil
}

// PassedListeners makes listeners of sockets that another process has opened, n at least: one socket may
// be listed several times. The descriptors stay the caller's. No other process may be accepting from
// them: while this function runs they are blocking.
func PassedListeners(fds []int, n int) (lns []net.Listener, err error) {
	for i := range max(len(fds), n) {
		f, err := passedFile(fds[min(i, len(fds)-1)])
		if err != nil {
			closeAll(lns)
			return nil, err
		}
		ln, err := net.FileListener(f)
		f.Close()
		if err != nil {
			closeAll(lns)
			return nil, err
		}
		lns = append(lns, ln)
	}
	return lns, nil
}

// PassedUDP is PassedListeners for a UDP socket.
func PassedUDP(fd int) (*net.UDPConn, error) {
	f, err := passedFile(fd)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func passedFile(fd int) (*os.File, error) {
	dup, err := CopyDescriptor(fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dup), "passed"), nil
}

// Descriptor returns a copy of a socket's descriptor, for another process or for later. The caller
// closes it.
func Descriptor(socket any) (fd int, err error) {
	raw, err := socket.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	if err != nil {
		return -1, err
	}
	// not by os.File: its Fd makes the socket blocking, and others use it
	closed := raw.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(closed, os.NewSyscallError("fcntl", err))
}

// CopyDescriptor returns a copy of a descriptor. The caller closes it.
func CopyDescriptor(fd int) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return dup, os.NewSyscallError("fcntl", err)
}

// CloseDescriptors closes what Descriptor has returned.
func CloseDescriptors(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Unblock makes sockets non-blocking again, in case another process ended within PassedListeners.
func Unblock(fds []int) {
	for _, fd := range fds {
		unix.SetNonblock(fd, true)
	}
}
