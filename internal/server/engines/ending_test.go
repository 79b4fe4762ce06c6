package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A client that does not close after its last reply is closed some time later, whether it is silent
// or goes on sending. All engines run this test at the same time.
func TestLingeringConnectionIsDropped(t *testing.T) {
	type pair struct {
		name   string
		rig    *rig
		chatty *client
	}
	var pairs []pair
	for _, m := range makers() {
		for _, p := range places {
			r := start(t, m, p, func(c *server.Config) { c.Linger = 100 * time.Millisecond })
			silent, chatty := r.dial(), r.dial()
			for _, c := range []*client{silent, chatty} {
				c.say("close\r\n")
				c.expect("bye\r\n")
				c.expectEOF()
			}
			pairs = append(pairs, pair{fmt.Sprintf("%s/%s/%d", m.name, p.network, p.loops), r, chatty})
		}
	}
	for _, p := range pairs {
		eventually(t, func() string {
			fmt.Fprint(p.chatty, "x") // until it fails
			if problem := p.rig.open(0); problem != "" {
				return p.name + ": " + problem
			}
			return ""
		})
	}
}

// A client that breaks off in the middle of a line is closed, even if its input and its end, or a
// reset, arrive together: the loop is stopped until both are there.
func TestBreakingOffWithinALine(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		loops := p.loops
		if m.name == "net" {
			loops = 0 // the portable engine has no loops
		}
		r := start(t, m, p, nil)
		b := r.newBrake(loops)
		for _, size := range []int{1, 2048, 30_000, 64 << 10, 64<<10 + 1, 100_000, 128 << 10, 300_000} {
			for _, reset := range []bool{false, true} {
				known := r.greeted()
				b.stop()
				var sent sync.WaitGroup
				for _, c := range []*client{known, r.dial()} {
					sent.Go(func() {
						c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
						io.WriteString(c, strings.Repeat("x", size)) // some may not fit
						if tcp, ok := c.Conn.(*net.TCPConn); ok && reset {
							tcp.SetLinger(0)
						}
						c.Close()
					})
				}
				sent.Wait()
				b.release()
				eventually(t, func() string { return r.open(int64(loops)) })
			}
		}
	})
}
