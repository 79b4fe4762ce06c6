package clients

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// received is what the kernel sends at a time, at most: it never sends more of a list.
const received = 64 << 10

// readSockets calls each for the connections of some local ports, until it returns false.
func readSockets(at []netip.AddrPort, each func(socket) bool) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	more := true
	counting := func(s socket) bool {
		more = each(s)
		return more
	}
	until, buffer := time.Now().Add(patience), make([]byte, received)
	asked, number := map[uint16]bool{}, uint32(0)
	for _, l := range at {
		if asked[l.Port()] {
			continue
		}
		asked[l.Port()] = true
		for _, family := range []byte{inet, inet6} {
			number++
			err := unix.Sendto(fd, request(family, l.Port(), number), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
			if err != nil {
				return err
			}
			if err := readAnswer(fd, buffer, number, until, counting); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// readAnswer reads the whole answer to a request.
func readAnswer(fd int, buffer []byte, number uint32, until time.Time, each func(socket) bool) error {
	for {
		left := time.Until(until)
		if left < time.Microsecond {
			return errLate
		}
		timeout := unix.NsecToTimeval(int64(left))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return err
		}
		n, _, flags, from, err := unix.Recvmsg(fd, buffer, nil, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return errLate
		case err != nil:
			return err
		case flags&unix.MSG_TRUNC != 0:
			return errMalformed
		}
		if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
			continue // another process may send to this socket too
		}
		if ended, err := parse(buffer[:n], number, each); ended || err != nil {
			return err
		}
	}
}
