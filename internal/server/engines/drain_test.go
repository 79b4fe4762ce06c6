package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"net"
	"os"
	"testing"
	"time"
)

// Input that has arrived when the daemon is told to stop is answered, even on a connection that is
// not accepted yet.
func TestDrainAnswersWhatHasArrived(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		for round := range 4 {
			r := start(t, m, p, nil)
			var clients []*client
			for i := range 30 {
				c := r.dial()
				if i%3 == 0 {
					c.echo("first")
				}
				clients = append(clients, c)
			}
			silent := r.dial()
			silent.say("echo unfinished")
			for i, c := range clients {
				c.say("big 20000\r\necho %d\r\n", i+round)
			}
			r.end()
			for i, c := range clients {
				c.expectBig(20000)
				c.expect(fmt.Sprintf("%d\r\n", i+round))
				c.expectEOF()
				c.Close()
			}
			silent.expectEOF()
			silent.Close()
			r.stop()
			if c, err := net.Dial(r.network, r.address); err == nil {
				c.Close()
				t.Error("still listening after Serve has returned")
			}
			if _, err := os.Lstat(r.address); r.network == "unix" && !os.IsNotExist(err) {
				t.Error("the socket's file is still there")
			}
		}
	})
}

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
		c.say("big 30000000\r\necho end\r\n")
		eventually(t, func() string {
			if r.counters.BytesWritten.Load() == 0 {
				return "nothing written"
			}
			return ""
		})
		r.end()
		c.expectBig(30_000_000)
		c.expect("end\r\n")
		c.expectEOF()
	})
}

// Clients that do not take their replies, or do not stop sending, cannot keep the daemon from
// ending.
func TestDrainTimeout(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, func(c *server.Config) { c.DrainTimeout = 50 * time.Millisecond })
		deaf, chatty := r.dial(), r.dial()
		deaf.say("big 100000000\r\n")
		go func() {
			for {
				if _, err := chatty.Write([]byte("echo 1\r\n")); err != nil {
					return
				}
			}
		}()
		eventually(t, func() string {
			if r.counters.BytesWritten.Load() == 0 {
				return "nothing written"
			}
			return ""
		})
		r.stop()
	})
}
