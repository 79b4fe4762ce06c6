package httpapi

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A lazy connection sets few timers. An http.Server sets seven deadlines for each request, nearly always to a later
// moment than the last, and each costs a timer. A lazy connection lets the earlier timer run: when that ends a Read or
// a Write too early, it sets the one that is due, and goes on. After each request the server also ends a Read that it
// began beside the handler. Where that has yet to begin, it ends without a timer.
type lazy struct {
	net.Conn
	reads, writes deadline
}

func newLazy(c net.Conn) *lazy {
	return &lazy{Conn: c, reads: deadline{set: c.SetReadDeadline}, writes: deadline{set: c.SetWriteDeadline}}
}

func (l *lazy) Read(b []byte) (n int, err error) {
	if !l.reads.begin() {
		return 0, os.ErrDeadlineExceeded
	}
	for {
		n, err = l.Conn.Read(b)
		if n > 0 || !l.reads.early(err) {
			l.reads.end()
			return n, err
		}
	}
}

func (l *lazy) Write(b []byte) (n int, err error) {
	for {
		wrote, err := l.Conn.Write(b[n:])
		n += wrote
		if !l.writes.early(err) {
			return n, err
		}
	}
}

func (l *lazy) SetReadDeadline(t time.Time) error  { return l.reads.want(t) }
func (l *lazy) SetWriteDeadline(t time.Time) error { return l.writes.want(t) }
func (l *lazy) SetDeadline(t time.Time) error      { return errors.Join(l.reads.want(t), l.writes.want(t)) }

// CloseWrite ends what the client reads, while it may still send.
func (l *lazy) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// A deadline is that of one direction.
type deadline struct {
	set func(time.Time) error // of the connection below

	mu    sync.Mutex
	due   time.Time // zero = never
	armed time.Time // what the connection below has: not later than due, unless that is past; zero = none
	rests bool      // no Read is under way below; false for writes
}

// past reports whether a moment is the one that an http.Server sets to end a Read.
func past(t time.Time) bool { return t.Unix() == 1 }

// want is a SetDeadline.
func (d *deadline) want(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = t
	if t.IsZero() || past(t) && d.rests || !d.armed.IsZero() && !t.Before(d.armed) {
		return nil
	}
	d.armed = t
	return d.set(t)
}

// begin reports whether a Read may begin below. There is one at a time.
func (d *deadline) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rests = past(d.due)
	return !d.rests
}

func (d *deadline) end() {
	d.mu.Lock()
	d.rests = true
	d.mu.Unlock()
}

// early reports whether err is that of a timer that ended a call before that was due. If so, it has set another.
func (d *deadline) early(err error) bool {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.due.IsZero() && !time.Now().Before(d.due) {
		return false
	}
	d.armed = d.due
	return d.set(d.due) == nil
}
