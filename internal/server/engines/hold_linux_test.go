package engines

import (
	"runtime"
	"testing"
)

// An idle event loop has given its P away, and garbage collections leave it alone. After Hold it keeps
// its P while it waits: a garbage collection must interrupt it, and can, and the loop goes round a turn.
// (TestHoldEnds of package loop: for how long.) Meanwhile the engine can be frozen, and it ends as ever.
func TestHold(t *testing.T) {
	for _, m := range makers() {
		if m.name == "net" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			r := start(t, m, place{"tcp", 1}, nil)
			r.newBrake(1).close() // it serves
			turns := r.clock.Load
			eventually(t, func() string {
				before := turns()
				if runtime.GC(); turns() != before {
					return "an idle loop is interrupted for ever"
				}
				return ""
			})
			r.engine.Hold()
			before := turns()
			eventually(t, func() string {
				if runtime.GC(); turns() < before+5 {
					return "a loop that was to hold its P is not interrupted"
				}
				return ""
			})
			r.thaw(r.freeze())
			r.engine.Hold()
			r.stop()
			r.engine.Hold() // nobody is there any more
		})
	}
}
