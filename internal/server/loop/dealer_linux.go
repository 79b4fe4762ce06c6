package loop

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LongestBacklog is the kernel's limit.
const LongestBacklog = 1 << 16

// A dealer accepts from the listener of a unix socket, of which there can be only one, for all loops. If the
// loops accepted themselves, nearly all connections would go from the one that happens to wait longest to
// others.
type dealer struct {
	*server.Config
	port     uint8    // number of its port
	file     *os.File // the listener's; package net cannot wait for a connection without accepting it
	loops    []*Loop
	failures server.Backoff

	mu     sync.Mutex // held while it accepts
	paused bool       // it accepts nothing; guarded by mu
}

// needsDealer reports whether the listeners of p share a unix socket.
func needsDealer(p *server.Port) bool {
	return len(p.Listeners) > 1 && p.Listeners[0].Addr().Network() == "unix"
}

// newDealer takes over the listeners of a port and makes the dealer that accepts for loops.
func newDealer(c *server.Config, number int, p *server.Port, loops []*Loop) (*dealer, error) {
	defer server.Close([]server.Port{*p})
	file, err := p.Listeners[0].(*net.UnixListener).File()
	if err != nil {
		return nil, err
	}
	return &dealer{Config: c, port: uint8(number), file: file, loops: loops}, nil
}

// run accepts until ctx ends, then accepts what is left in the backlog.
func (d *dealer) run(ctx context.Context) error {
	defer d.file.Close()
	raw, err := d.file.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { d.file.SetReadDeadline(time.Unix(1, 0)) })()
	for ctx.Err() == nil {
		var errno unix.Errno
		err := raw.Read(func(fd uintptr) bool {
			errno = d.deal(int(fd))
			return errno != unix.EAGAIN
		})
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, os.ErrDeadlineExceeded): // see resume
			d.file.SetReadDeadline(time.Time{})
		case err != nil:
			return err
		case errno == 0:
			d.failures.Succeeded(d.Config)
		default:
			select {
			case <-time.After(d.failures.Failed(d.Config, os.NewSyscallError("accept4", errno))):
			case <-ctx.Done():
			}
		}
	}
	return raw.Control(func(fd uintptr) {
		for range LongestBacklog {
			if d.deal(int(fd)) != 0 {
				return
			}
		}
	})
}

// pause returns when the dealer accepts nothing more.
func (d *dealer) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
}

// resume undoes pause.
func (d *dealer) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = false
	d.file.SetReadDeadline(time.Unix(1, 0)) // the connections that came meanwhile wake nobody again
}

func (d *dealer) deal(listener int) unix.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused {
		return unix.EAGAIN
	}
	fd, errno := RawAccept(listener)
	if errno == 0 {
		d.loops[0].balance.place(len(d.loops), d.loops[0]).give(Arrival{FD: fd, Port: d.port})
	}
	return errno
}

// Gone reports whether an error of accept concerns only one connection, which no longer exists.
func Gone(e syscall.Errno) bool {
	return e == unix.ECONNABORTED || e == unix.EINTR || e == unix.EPERM || e == unix.EPROTO
}
