package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

const (
	maxBatch   = 64 << 10        // bytes of requests sent at once; a fresh socket's buffer takes them whole
	readBuffer = 64 << 10        // bytes taken from a socket at once, at most
	stallLimit = 5 * time.Second // without any answer the run is over
)

// A loop is the raw client: one thread that owns some connections, polls without ever sleeping, and
// follows each batch of answers with the next batch of requests. Sleeping would add the cost of
// waking it to every latency, and give the server's core idle moments that belong to the generator.
// It allocates nothing while it runs.
type loop struct {
	base    time.Time
	dialect dialect
	seen    *unique.Set // of this window; nil if the ids are not looked at
	depth   int         // requests that a connection sends at once
	streams []stream
	driver  driver
	joined  []byte // what was left of one read and what the next one brought

	answers  uint64
	latency  histogram
	waiting  int64 // ns in which no answer was there to be read
	counting bool
	stopping bool
	open     int // streams that wait for an answer
}

// A driver moves a loop's bytes. All its calls come from the loop's thread, start before the others.
type driver interface {
	start(*loop) error
	send(*stream) error              // the stream's batch, at once or with the next turn
	turn() (received int, err error) // hands all that has arrived to loop.take, and waits for nothing
	close()
}

// A stream is one connection and what is under way on it.
type stream struct {
	conn  rawConn
	slot  int    // in loop.streams
	batch []byte // the requests it sends at once
	left  int    // answers still to come
	sent  int64  // when the batch was sent
	at    progress
	rest  []byte // the beginning of an item whose end has not arrived

	greedy bool // asks for many ids at once, again and again; its answers do not count
}

// greed is what a greedy stream sends. Its answer ends with one of the endings.
var (
	greed   = []byte("ids 10000\r\n")
	endings = [][]byte{[]byte("END\r\n"), []byte("rate exceeded\r\n")}
)

// newLoop connects n streams, of which the first ones are greedy.
func newLoop(base time.Time, to endpoint, n, greedy, depth int, d dialect, by driver) (*loop, error) {
	l := &loop{base: base, dialect: d, depth: depth, streams: make([]stream, 0, n), driver: by,
		joined: make([]byte, 0, maxItem+readBuffer)}
	batch := d.request(depth)
	if len(batch) > maxBatch {
		return nil, fmt.Errorf("a batch of %d requests has %d bytes, more than %d", depth, len(batch), maxBatch)
	}
	for i := range n {
		c, err := dialRaw(to)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		st := stream{conn: c, slot: i, batch: bytes.Clone(batch), rest: make([]byte, 0, maxItem)}
		if i < greedy {
			st.batch, st.greedy = greed, true
		}
		l.streams = append(l.streams, st)
	}
	return l, nil
}

func (l *loop) close() {
	for i := range l.streams {
		l.streams[i].conn.close()
	}
}

func (l *loop) now() int64 { return int64(time.Since(l.base)) }

// run loads the server, from the time from on counts what is answered in a window of the given
// length, and then waits for what is still under way. edge is called at the window's two ends. A
// window without any answer goes on until there is one.
func (l *loop) run(from, length int64, edge func() error) error {
	defer l.driver.close()
	if err := l.driver.start(l); err != nil {
		return err
	}
	now := l.now()
	for i := range l.streams {
		if err := l.ask(&l.streams[i], now); err != nil {
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
		n, err := l.driver.turn()
		if err != nil {
			return err
		}
		was := now
		now = l.now()
		switch {
		case n > 0 || now-was > int64(time.Second): // a time in which we did not run ourselves says nothing of the server
			heard = now
		case now-heard > int64(stallLimit):
			return l.stalled()
		case l.counting:
			l.waiting += now - was
		}
	}
	return nil
}

// ask sends the next batch of a stream.
func (l *loop) ask(s *stream, now int64) error {
	s.left, s.sent = 1, now
	if !s.greedy {
		l.dialect.stamp(s.batch, &s.at)
		s.left = l.depth
	}
	l.open++
	return l.driver.send(s)
}

// takeGreedily is take for a greedy stream.
func (l *loop) takeGreedily(s *stream, in []byte) error {
	ended := func(ending []byte) bool { return bytes.HasSuffix(in, ending) }
	if !slices.ContainsFunc(endings, ended) {
		s.rest = append(s.rest[:0], in[max(0, len(in)-maxItem):]...)
		return nil
	}
	s.left, s.rest = 0, s.rest[:0]
	l.open--
	if l.stopping {
		return nil
	}
	return l.ask(s, l.now())
}

// take checks what a stream has received, and asks again once all is answered.
func (l *loop) take(s *stream, in []byte) error {
	if len(in) == 0 {
		return fmt.Errorf("the server closed a connection with %d answers outstanding, after %q", s.left, s.rest)
	}
	if len(s.rest) > 0 {
		l.joined = append(append(l.joined[:0], s.rest...), in...)
		in = l.joined
	}
	if s.greedy {
		return l.takeGreedily(s, in)
	}
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
	return l.ask(s, now)
}

// stalled says what the server left open, and whether it was the server.
func (l *loop) stalled() error {
	for i := range l.streams {
		if s := &l.streams[i]; s.left > 0 {
			unread, _ := unix.IoctlGetInt(int(s.conn), unix.TIOCINQ)
			unsent, _ := unix.IoctlGetInt(int(s.conn), unix.TIOCOUTQ)
			return fmt.Errorf("no answer for %v on %d connections; the first of them waits for %d and has received %q of the "+
				"next; its socket holds %d bytes to read and %d to send",
				stallLimit, l.open, s.left, s.rest, unread, unsent)
		}
	}
	return fmt.Errorf("no answer for %v", stallLimit)
}
