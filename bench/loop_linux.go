package main

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	readBuffer   = 64 << 10        // bytes asked of the kernel at once; longer than any batch's answers, or nearly
	maxBatch     = 64 << 10        // bytes of requests sent at once; a fresh socket's buffer takes them whole
	stallLimit   = 5 * time.Second // without any answer the run is over
	eventsAtOnce = 256             // events taken from the kernel in a turn
)

// A loop is the raw client: one thread that owns some connections, polls without ever sleeping, and answers each batch of answers with
// the next batch of requests. Sleeping would add the cost of waking it to every latency and give the server's core idle moments that belong to
// the generator. It allocates nothing while it runs.
type loop struct {
	base    time.Time
	epfd    int
	dialect dialect
	seen    *idSet // of this window; nil if the ids are not looked at
	batch   []byte // the requests that a connection sends at once
	depth   int
	streams []stream
	events  [eventsAtOnce]unix.EpollEvent
	buf     []byte // maxItem for what was left of the last read, and readBuffer

	answers  uint64
	latency  histogram
	waiting  int64 // ns in which no answer was there to be read
	counting bool
	stopping bool
	open     int // streams that wait for an answer
}

// A stream is one connection and what is under way on it.
type stream struct {
	conn rawConn
	left int   // answers still to come of the current batch
	sent int64 // when that was sent
	at   progress
	rest []byte // the beginning of an item whose end has not arrived
}

// newLoop connects n streams.
func newLoop(base time.Time, to endpoint, n, depth int, d dialect) (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	l := &loop{base: base, epfd: epfd, dialect: d, depth: depth, batch: d.request(depth), buf: make([]byte, maxItem+readBuffer)}
	if len(l.batch) > maxBatch {
		unix.Close(epfd)
		return nil, fmt.Errorf("a batch of %d requests has %d bytes, more than %d", depth, len(l.batch), maxBatch)
	}
	l.streams = make([]stream, 0, n)
	for i := range n {
		c, err := dialRaw(to)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		l.streams = append(l.streams, stream{conn: c, rest: make([]byte, 0, maxItem)})
		// Edge-triggered: no second look at a socket that was read empty.
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i)}
		if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, int(c), &ev); err != nil {
			l.close()
			return nil, fmt.Errorf("epoll_ctl: %w", err)
		}
	}
	return l, nil
}

func (l *loop) close() {
	for i := range l.streams {
		l.streams[i].conn.close()
	}
	unix.Close(l.epfd)
}

func (l *loop) now() int64 { return int64(time.Since(l.base)) }

// run loads the server, from the time from on counts what is answered in a window of the given length, and then waits for what is still under
// way. edge is called at the window's two ends. A window without any answer goes on until there is one.
func (l *loop) run(from, length int64, edge func() error) error {
	now := l.now()
	for i := range l.streams {
		if err := l.send(&l.streams[i], now); err != nil {
			return err
		}
	}
	if err := l.spin(func(now int64) bool { return now >= from }); err != nil {
		return err
	}
	if err := edge(); err != nil {
		return err
	}
	l.counting, l.answers, l.waiting = true, 0, 0
	to := l.now() + length
	if err := l.spin(func(now int64) bool { return now >= to && l.answers > 0 }); err != nil {
		return err
	}
	if err := edge(); err != nil {
		return err
	}
	l.counting, l.stopping = false, true
	return l.spin(func(int64) bool { return l.open == 0 })
}

// spin takes turns until done.
func (l *loop) spin(done func(now int64) bool) error {
	now := l.now()
	heard := now
	for !done(now) {
		n, err := l.poll()
		if err != nil {
			return err
		}
		was := now
		now = l.now()
		if n > 0 {
			heard = now
		} else if now-heard > int64(stallLimit) {
			return l.stalled()
		} else if l.counting {
			l.waiting += now - was
		}
		for i := range n {
			if err := l.read(&l.streams[l.events[i].Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

// poll asks which streams have something to read, and does not wait. The system calls of the hot path are raw: the runtime need not know
// of calls that never block.
func (l *loop) poll() (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epfd), uintptr(unsafe.Pointer(&l.events[0])), eventsAtOnce, 0, 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, fmt.Errorf("epoll_wait: %w", errno)
	}
	return int(n), nil
}

// send sends the next batch of a stream.
func (l *loop) send(s *stream, now int64) error {
	l.dialect.stamp(l.batch, &s.at)
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.conn), uintptr(unsafe.Pointer(&l.batch[0])), uintptr(len(l.batch)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 || int(n) != len(l.batch) {
		return fmt.Errorf("the kernel took %d of %d bytes to send: %w", n, len(l.batch), errno)
	}
	s.left, s.sent = l.depth, now
	l.open++
	return nil
}

// read takes all that a stream has received, and sends its next batch once the last one is answered.
func (l *loop) read(s *stream) error {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.conn), uintptr(unsafe.Pointer(&l.buf[maxItem])), readBuffer,
			unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("receive: %w", errno)
		case n == 0:
			return fmt.Errorf("the server closed a connection with %d answers outstanding, after %q", s.left, s.rest)
		}
		if err := l.take(s, int(n)); err != nil {
			return err
		}
		if n < readBuffer { // a short read has emptied the socket
			return nil
		}
	}
}

// take checks the n bytes that were read.
func (l *loop) take(s *stream, n int) error {
	from := maxItem - copy(l.buf[maxItem-len(s.rest):maxItem], s.rest)
	in := l.buf[from : maxItem+n]
	used, answers, err := l.dialect.check(&s.at, in)
	if err != nil {
		return err
	}
	if answers > s.left {
		return fmt.Errorf("%d answers more than were asked for, in %q", answers-s.left, in)
	}
	if len(in)-used > maxItem {
		return fmt.Errorf("%d bytes without the end of an item: %q", len(in)-used, in[used:])
	}
	s.rest = append(s.rest[:0], in[used:]...)
	now := l.now()
	if l.counting {
		l.answers += uint64(answers)
		l.latency.add(now-s.sent, answers)
	}
	if s.left -= answers; s.left > 0 || answers == 0 {
		return nil
	}
	if len(s.rest) > 0 {
		return fmt.Errorf("an answer that nobody asked for: %q", s.rest)
	}
	l.open--
	if l.stopping {
		return nil
	}
	return l.send(s, now)
}

// stalled says what the server left open.
func (l *loop) stalled() error {
	for i := range l.streams {
		if s := &l.streams[i]; s.left > 0 {
			return fmt.Errorf("no answer for %v on %d connections; the first of them waits for %d and has received %q of the next",
				stallLimit, l.open, s.left, s.rest)
		}
	}
	return fmt.Errorf("no answer for %v", stallLimit)
}
