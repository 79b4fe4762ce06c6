package server

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A dealer accepts from the listener of a unix socket, of which there can be only one, and deals the connections out to the loops in turn.
// Left to themselves, the loop that happens to wait longest would get nearly all of them.
type dealer struct {
	*Config
	file     *os.File // the listener's; package net itself has no means to wait for a connection without accepting it
	loops    []*loop
	next     int
	failures backoff
}

// newDealer takes over the listeners if they share a unix socket; else it returns nil.
func newDealer(c *Config, lns []net.Listener) (*dealer, error) {
	ln, ok := lns[0].(*net.UnixListener)
	if !ok || len(lns) == 1 {
		return nil, nil
	}
	defer closeAll(lns)
	file, err := ln.File()
	if err != nil {
		return nil, err
	}
	return &dealer{Config: c, file: file}, nil
}

// run accepts until ctx ends, and then what is in the backlog.
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
		case err != nil:
			return err
		case errno == 0:
			d.failures.succeeded(d.Config)
		default:
			select {
			case <-time.After(d.failures.failed(d.Config, os.NewSyscallError("accept4", errno))):
			case <-ctx.Done():
			}
		}
	}
	return raw.Control(func(fd uintptr) {
		for range longestBacklog {
			if d.deal(int(fd)) != 0 {
				return
			}
		}
	})
}

func (d *dealer) deal(listener int) unix.Errno {
	fd, errno := rawAccept(listener)
	if errno == 0 {
		d.loops[d.next].give(fd)
		d.next = (d.next + 1) % len(d.loops)
	}
	return errno
}

// give gives the loop a connection that was accepted elsewhere.
func (l *loop) give(fd int32) {
	l.mu.Lock()
	l.given = append(l.given, fd)
	l.mu.Unlock()
	l.signal(signalGiven)
}

// taken takes what was given.
func (l *loop) taken() []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	given := l.given
	l.given = nil
	return given
}

// gone tells an error of accept that concerns one connection only, which is no more.
func gone(e syscall.Errno) bool {
	return e == unix.ECONNABORTED || e == unix.EINTR || e == unix.EPERM || e == unix.EPROTO
}
