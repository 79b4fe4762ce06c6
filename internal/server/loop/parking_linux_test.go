package loop

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
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
	var w Control
	w.Wake() // before it has loops
	w.serving.Store(&serving{balance: &balance{loops: []*Loop{l}}})
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
		conn.Peer = 1 // there is no port that says what its address is
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

// Parked connections that hold much input are asked a few at a time, all of them once in a round, in
// the order in which they were parked: after a Wake one turn after the other, otherwise with pauses.
func TestUnparkInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 50 * time.Millisecond
		c := &server.Config{ParkPause: pause}
		l := &Loop{Config: c, Wake: -1}
		l.Share = c.Share(func() {}, func() {})
		defer l.close()
		size, count := askAtOnce/4-askCost, 18 // four at a time; the last time two
		var order []int32
		for range count {
			conn := l.Conns.Take()
			conn.Peer = 1 // there is no port that says what its address is
			conn.Session = waiter{}
			l.Digest(conn, make([]byte, size), nil)
			order = append(order, conn.Slot)
		}
		// turn is a turn of the loop: it asks those whom Unpark chose, and returns how many they were.
		turn := func() int {
			if signals := l.Signals.Swap(0); signals != 0 {
				l.Unpark(signals, nil)
			}
			chosen := l.Again
			l.Again = nil
			for i, slot := range chosen {
				if slot != order[i] {
					t.Fatalf("asked the connection in slot %d, want %d", slot, order[i])
				}
				conn := l.Conns.At(slot)
				conn.Queued = false
				l.Digest(conn, nil, nil)
			}
			order = append(order[len(chosen):], order[:len(chosen)]...)
			return len(chosen)
		}
		check := func(what string, wait time.Duration, want ...int) {
			t.Helper()
			for i, n := range want {
				time.Sleep(wait)
				synctest.Wait()
				if got := turn(); got != n {
					t.Errorf("%s: part %d: asked %d connections, want %d", what, i, got, n)
				}
			}
		}
		time.Sleep(pause)
		check("the pause is over", 0, 4, 0)
		check("... and goes on", askPause, 4, 4, 4, 2, 0)
		l.Signal(SignalWake)
		check("Wake", 0, 4, 4, 4)
		l.Signal(SignalWake) // those who were asked since the first one have to be asked again
		check("another Wake before the first is done", 0, 4, 4, 4, 4, 2, 0)
		if !l.awaited.Load() || len(l.parked) != count {
			t.Errorf("%d are parked, want %d", len(l.parked), count)
		}
		for _, slot := range order {
			l.Conns.At(slot).Parked = false // as if they were closed
		}
		l.Signal(SignalWake)
		check("nobody is left", pause, 0, 0)
	})
}

// A connection that is parked when it is closed is not confused with the next one in its slot.
func TestUnparkAfterClose(t *testing.T) {
	c := &server.Config{ParkPause: time.Hour, Counters: new(server.Counters)}
	l := &Loop{Config: c, Wake: -1}
	l.Share = c.Share(func() {}, func() {})
	defer l.close()
	conn := l.Conns.Take()
	conn.Peer = 1 // there is no port that says what its address is
	conn.Session = waiter{}
	l.Digest(conn, nil, nil)
	slot := conn.Slot
	l.Forget(conn)
	l.Conns.Free = append(l.Conns.Free, slot)
	next := l.Conns.Take()
	next.Peer = 1 // there is no port that says what its address is
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
