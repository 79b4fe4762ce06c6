package loop

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A waiter is a session that always waits.
type waiter struct{}

func (waiter) Feed(_ int64, _, out []byte) (int, []byte, error) { return 0, out, waiter{} }
func (waiter) Error() string                                    { return "wait" }
func (waiter) Wait() bool                                       { return true }

// A Wake signals a loop at most once, however many connections are parked, and does nothing while
// none is.
func TestWakeSignalsOnce(t *testing.T) {
	c := &server.Config{ParkPause: time.Hour}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{Config: c, Wake: fd}
	l.Share = c.Share(func() {}, func() {})
	defer l.close()
	var w Waker
	w.Wake() // before it has loops
	w.loops.Store(&[]*Loop{l})
	check := func(what string, calls, signals uint32) {
		t.Helper()
		for range 3 {
			w.Wake()
		}
		var count [8]byte
		unix.Read(l.Wake, count[:])
		if n := binary.NativeEndian.Uint64(count[:]); n != uint64(calls) || l.Signals.Swap(0) != signals {
			t.Errorf("%s: the loop was called %d times, want %d", what, n, calls)
		}
	}
	check("nobody is parked", 0, 0)
	var conns []*Conn
	for range 300 {
		conn := l.Conns.Take()
		conn.Session = waiter{}
		l.Digest(conn, []byte("x"), nil)
		conns = append(conns, conn)
	}
	check("many are parked", 1, SignalWake)
	l.Unpark(SignalWake, nil)
	for i, slot := range l.Again {
		if slot != conns[i].Slot || conns[i].Parked {
			t.Fatalf("connection %d of those who were parked is not the one in slot %d", i, slot)
		}
	}
	if len(l.Again) != len(conns) {
		t.Errorf("%d get another turn, want %d", len(l.Again), len(conns))
	}
	check("they are being asked again", 1, SignalWake)
	l.Unpark(SignalWake, nil)
	check("nobody is parked any more", 0, 0)
}

// A connection that is parked when it is closed is not confused with the next one in its slot.
func TestUnparkAfterClose(t *testing.T) {
	c := &server.Config{ParkPause: time.Hour, Counters: new(server.Counters)}
	l := &Loop{Config: c, Wake: -1}
	l.Share = c.Share(func() {}, func() {})
	defer l.close()
	conn := l.Conns.Take()
	conn.Session = waiter{}
	l.Digest(conn, nil, nil)
	slot := conn.Slot
	l.Forget(conn)
	l.Conns.Free = append(l.Conns.Free, slot)
	next := l.Conns.Take()
	next.Session = waiter{}
	l.Digest(next, nil, nil)
	if next != conn {
		t.Fatal("another slot")
	}
	l.Unpark(SignalPoll, nil)
	if len(l.Again) != 1 || next.Parked {
		t.Errorf("%d connections get another turn, want one", len(l.Again))
	}
	l.Again, next.Queued = nil, false
	l.Digest(next, nil, nil)
	l.Forget(next)
	l.Unpark(SignalPoll, nil)
	if len(l.Again) != 0 {
		t.Error("an empty slot gets another turn")
	}
}
