package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"testing"
	"time"
)

// unpolled makes parked sessions depend on Wake.
func unpolled(c *server.Config) { c.ParkPause = time.Hour }

// fill gives the well n tickets, and then wakes the engine.
func (r *rig) fill(n int) {
	r.well.tickets.Add(int64(n))
	r.engine.Wake()
}

// parked waits until a session has asked the well in vain n times more than when asked.
func (r *rig) parked(asked int64, n int) {
	r.t.Helper()
	eventually(r.t, func() string {
		if got := r.well.asked.Load() - asked; got < int64(n) {
			return fmt.Sprintf("the well was asked %d times in vain, want %d", got, n)
		}
		return ""
	})
}

// A session that waits is asked again after a Wake, and also without one. What came before the wait is
// sent before it; what comes behind is answered after it.
func TestParkedConnectionIsAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		for _, change := range []func(*server.Config){unpolled, nil} {
			r := start(t, m, p, change)
			c := r.dial()
			for i := range 3 {
				c.say("echo before\r\ntake %d\r\necho after\r\ntake again\r\n", i)
				c.expect("before\r\n")
				if change != nil {
					r.fill(1)
				} else {
					r.well.tickets.Add(1)
				}
				c.expect(fmt.Sprintf("%d\r\nafter\r\n", i))
				c.say("echo last\r\n") // while it is parked
				if change != nil {
					r.fill(1)
				} else {
					r.well.tickets.Add(1)
				}
				c.expect("again\r\nlast\r\n")
			}
			c.Close()
			r.checkLeaks()
			r.engine.Wake() // nobody is there any more
		}
	})
}

// A Wake between a session's answer that it must wait and the parking of its connection is not lost.
func TestWakeWhileParking(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, unpolled)
		defer r.checkLeaks()
		c := r.dial()
		for vain := range int64(8) {
			// Each question in vain wakes the engine before the session says that it must wait; the
			// last one also brings the ticket.
			asked := r.well.asked.Load()
			dry := func() {
				if r.well.asked.Load() == asked+vain+1 {
					r.well.tickets.Add(1)
				}
				r.engine.Wake()
			}
			r.well.dry.Store(&dry)
			c.say("take %d\r\n", vain)
			c.expect(fmt.Sprintf("%d\r\n", vain))
		}
		c.Close()
	})
}
