package loop

import (
	"runtime"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// Hold is for the first loop. It ends after holdWaits interrupted waits, unless it is repeated, and does
// nothing where the loops would leave no P for others.
func TestHoldEnds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var loops []*Loop
	for range 2 {
		loops = append(loops, &Loop{Config: new(server.Config), Wake: -1, Loops: 2})
	}
	var c Control
	c.Hold() // before it has loops
	c.serving.Store(&serving{balance: &balance{loops: loops}})
	held := func(l *Loop) (n int) {
		l.Called(l.Signals.Swap(0))
		for n < 2*holdWaits && l.Interrupted() {
			n++
		}
		return n
	}
	check := func(what string, want int) {
		t.Helper()
		if a, b := held(loops[0]), held(loops[1]); a != want || b != 0 {
			t.Errorf("%s: the first loop holds its P for %d waits, want %d, the other for %d", what, a, want, b)
		}
	}
	check("nobody called", 0)
	c.Hold()
	check("once", holdWaits)
	check("afterwards", 0)
	c.Hold()
	loops[0].Called(loops[0].Signals.Swap(0))
	for range holdWaits / 2 {
		loops[0].Interrupted()
	}
	c.Hold()
	check("again in time", holdWaits)
	c.Hold()
	loops[0].Called(loops[0].Signals.Swap(0))
	runtime.GOMAXPROCS(2) // none is left for others
	if loops[0].Interrupted() || loops[0].Raw {
		t.Error("the first loop holds the P that others need")
	}
	runtime.GOMAXPROCS(3)
	if loops[0].Called(0); !loops[0].Raw {
		t.Error("a loop does not notice that there is a P for it again")
	}
}
