package server

import (
	"fmt"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An acceptor is a port as one event loop sees it.
type acceptor struct {
	*Port
	loop     int  // its number
	listener int  // descriptor, -1 when there is none (any more): also where a dealer accepts
	unix     bool // the connections are a unix socket's
	failures backoff
	resting  bool // accepting has failed, and signalAccept will come
}

// maxPorts is how many ports an engine can serve, for conn.port.
const maxPorts = math.MaxUint8 + 1

// newAcceptor makes the acceptor of p in a loop, without a listener.
func newAcceptor(p *Port, loop int) acceptor {
	return acceptor{Port: p, loop: loop, listener: -1, unix: len(p.Listeners) > 0 && p.Listeners[0].Addr().Network() == "unix"}
}

// takeOver takes the descriptor of ln over and closes ln: while that is open the runtime's poller watches the descriptor, too.
func (a *acceptor) takeOver(ln net.Listener) error {
	s, ok := ln.(syscall.Conn)
	if !ok {
		return fmt.Errorf("listener of type %T has no descriptor; only the net engine can serve it", ln)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	err = control(func(fd int) error {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("fcntl", err)
		}
		a.listener = dup
		return nil
	})("", "", raw)
	if err != nil {
		return err
	}
	if _, tcp := ln.(*net.TCPListener); tcp {
		// Accepted sockets inherit both, which saves two calls for each.
		unix.SetsockoptInt(a.listener, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		unix.SetsockoptInt(a.listener, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	}
	return ln.Close()
}

func (a *acceptor) open() Session { return a.Open(a.loop) }

func (a *acceptor) close() {
	if a.listener >= 0 {
		unix.Close(a.listener)
		a.listener = -1
	}
}

// rest leaves the listener of a alone for a while, since accepting has failed.
func (l *loop) rest(a *acceptor, err error) {
	a.resting = true
	time.AfterFunc(a.failures.failed(l.Config, err), func() { l.signal(signalAccept) })
}

// listening tells whether any listener is still open.
func (l *loop) listening() bool {
	for i := range l.acceptors {
		if l.acceptors[i].listener >= 0 {
			return true
		}
	}
	return false
}
