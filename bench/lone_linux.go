package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// A loneDriver drives one connection as most programs do: it sleeps until its answer is there, and thinks before it
// asks again. Thinking is busy, so that its length is exact.
type loneDriver struct {
	loop  *loop
	think []time.Duration
	asked int
	buf   []byte
}

func (d *loneDriver) start(l *loop) error {
	d.loop, d.buf = l, make([]byte, readBuffer)
	tv := unix.NsecToTimeval(int64(time.Second)) // so that a turn ends although the server is silent
	return unix.SetsockoptTimeval(int(l.streams[0].conn), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
}

func (d *loneDriver) close() {}

func (d *loneDriver) send(s *stream) error {
	until := d.loop.now() + int64(d.think[d.asked%len(d.think)])
	d.asked++
	for d.loop.now() < until {
	}
	s.sent = d.loop.now()
	n, err := unix.SendmsgN(int(s.conn), s.batch, nil, nil, unix.MSG_NOSIGNAL)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return allSent(n, s)
}

func (d *loneDriver) turn() (received int, err error) {
	s := &d.loop.streams[0]
	n, err := unix.Read(int(s.conn), d.buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("receive: %w", err)
	}
	return 1, d.loop.take(s, d.buf[:n])
}
