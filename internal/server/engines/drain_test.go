package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"testing"
	"time"
)

// Those who wait in the backlog when the end begins are answered, though there are more than an engine takes at a time.
func TestDrainOfAFullBacklog(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		busy := r.dial()
		busy.say("hold\r\necho held\r\n")
		<-r.held
		var waiting []*client
		for i := range 200 {
			c := r.dial()
			c.say("echo %d\r\n", i)
			waiting = append(waiting, c)
		}
		r.end()
		<-r.freed
		busy.expect("held\r\n")
		busy.expectEOF()
		busy.Close()
		for i, c := range waiting {
			c.expect(fmt.Sprintf("%d\r\n", i))
			c.expectEOF()
			c.Close()
		}
	})
}

// A reply larger than the socket's buffers is still delivered to a client that reads.
func TestDrainFinishesReplies(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		c := r.dial()
		c.say("big 12000000\r\necho end\r\n")
		r.writes(1)
		r.end()
		c.expectBig(12_000_000)
		c.expect("end\r\n")
		c.expectEOF()
	})
}

// Clients that do not take their replies, do not stop sending, or wait for an answer cannot keep the daemon from
// ending.
func TestDrainTimeout(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, func(c *server.Config) {
			unpolled(c)
			c.DrainTimeout = 50 * time.Millisecond
		})
		deaf, chatty, parked := r.dial(), r.dial(), r.dial()
		parked.say("take 1\r\n")
		r.parked(0, 1)
		deaf.say("big 100000000\r\n")
		go func() {
			for {
				if _, err := chatty.Write([]byte("echo 1\r\n")); err != nil {
					return
				}
			}
		}()
		r.writes(1)
		r.stop()
		parked.expectEOF()
	})
}
