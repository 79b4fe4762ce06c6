package main

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// An endpoint is where a server listens.
type endpoint struct {
	via     transport
	address string // host:port, or the path of a unix socket
	web     string // host:port of /metrics; "" = there is none
}

func (e endpoint) String() string { return string(e.via) + " " + e.address }

// network is what net.Dial calls the transport.
func (e endpoint) network() string {
	if e.via == overUnix {
		return "unix"
	}
	return "tcp"
}

// sockaddr resolves the endpoint for the system calls.
func (e endpoint) sockaddr() (family int, sa unix.Sockaddr, err error) {
	if e.via == overUnix {
		return unix.AF_UNIX, &unix.SockaddrUnix{Name: e.address}, nil
	}
	a, err := net.ResolveTCPAddr("tcp", e.address)
	if err != nil {
		return 0, nil, err
	}
	if ip4 := a.IP.To4(); ip4 != nil {
		return unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip4)}, nil
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}, nil
}

// A rawConn is a connected socket that the runtime's poller does not know.
type rawConn int

// dialRaw connects. Closing the result resets the connection, so that a run of thousands leaves no
// ports in TIME_WAIT.
func dialRaw(e endpoint) (rawConn, error) {
	family, sa, err := e.sockaddr()
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	c := rawConn(fd)
	if err := c.connect(family, sa); err != nil {
		c.close()
		return -1, fmt.Errorf("connect to %s: %w", e, err)
	}
	return c, nil
}

func (c rawConn) connect(family int, sa unix.Sockaddr) error {
	for {
		err := unix.Connect(int(c), sa)
		if err == unix.EINTR { // a signal of the runtime; the handshake goes on, and asking again tells how it ended
			continue
		}
		if err != nil && err != unix.EISCONN {
			return err
		}
		break
	}
	if family == unix.AF_UNIX {
		return nil
	}
	if err := unix.SetsockoptLinger(int(c), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	// The cheapest algorithm that every kernel has, for the generator's own sake; the servers have
	// the machine's default.
	if err := unix.SetsockoptString(int(c), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"); err != nil {
		return err
	}
	return unix.SetsockoptInt(int(c), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func (c rawConn) close() { unix.Close(int(c)) }

// ask sends one request and waits for its answer, which it checks. It is for everything that is not
// measured.
func (c rawConn) ask(d dialect, patience time.Duration) error {
	tv := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(int(c), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return err
	}
	var p progress
	req := d.request(1)
	d.stamp(req, &p)
	if n, err := unix.SendmsgN(int(c), req, nil, nil, unix.MSG_NOSIGNAL); err != nil || n < len(req) {
		return fmt.Errorf("send: %d of %d bytes: %w", n, len(req), err)
	}
	buf := make([]byte, 16<<10)
	have := 0
	for {
		n, err := unix.Read(int(c), buf[have:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("receive after %q: %w", buf[:have], err)
		case n == 0:
			return fmt.Errorf("the server closed the connection after %q", buf[:have])
		}
		have += n
		used, answers, err := d.check(&p, buf[:have])
		if err != nil || answers > 0 {
			return err
		}
		have = copy(buf, buf[used:have])
	}
}
