package loop

import (
	"errors"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An acceptor is a port as one event loop sees it.
type acceptor struct {
	*server.Port
	loop     int  // number of the loop
	Listener int  // descriptor; -1 when there is none (any more), or when a dealer accepts
	Unix     bool // it accepts connections of a unix socket
	Failures server.Backoff
	Resting  bool // accepting has failed, and SignalAccept will follow
}

// maxPorts is how many ports an engine can serve; it is limited by the type of Conn.Port.
const maxPorts = math.MaxUint8 + 1

// newAcceptor makes the acceptor of p in a loop, without a listener.
func newAcceptor(p *server.Port, loop int) acceptor {
	return acceptor{Port: p, loop: loop, Listener: -1, Unix: len(p.Listeners) > 0 &&
		p.Listeners[0].Addr().Network() == "unix"}
}

// takeOver takes the descriptor over from ln and closes ln: otherwise the runtime's poller would
// watch the descriptor too.
func (a *acceptor) takeOver(ln net.Listener) error {
	s, ok := ln.(syscall.Conn)
	if !ok {
		return fmt.Errorf("listener of type %T has no descriptor; only the net engine can serve it", ln)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	dup := -1
	closed := raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(closed, os.NewSyscallError("fcntl", err)); err != nil {
		return err
	}
	a.Listener = dup
	if _, tcp := ln.(*net.TCPListener); tcp {
		// Accepted sockets inherit both options, which saves two calls per connection.
		unix.SetsockoptInt(a.Listener, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		unix.SetsockoptInt(a.Listener, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	}
	return ln.Close()
}

func (a *acceptor) NewSession() server.Session { return a.Open(a.loop, nil) }

func (a *acceptor) Close() {
	if a.Listener >= 0 {
		unix.Close(a.Listener)
		a.Listener = -1
	}
}

// Rest stops accepting on a for a while after a failure.
func (l *Loop) Rest(a *acceptor, err error) {
	a.Resting = true
	time.AfterFunc(a.Failures.Failed(l.Config, err), func() { l.Signal(SignalAccept) })
}

// Listening reports whether any listener is still open.
func (l *Loop) Listening() bool {
	for i := range l.Acceptors {
		if l.Acceptors[i].Listener >= 0 {
			return true
		}
	}
	return false
}
