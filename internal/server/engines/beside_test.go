package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"testing"
)

// An encrypted port is served beside plain ones. The chosen engine serves the plain ones on its own
// loops.
func TestTLSPortBesideOthers(t *testing.T) {
	roots, enc := newTLS(t)
	for _, m := range makers() {
		for _, loops := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", m.name, loops), func(t *testing.T) {
				both := candidate{m.name, func(c server.Config) server.Engine { return newBeside(m.make(c), c) }, nil}
				r := startPorts(t, both, func(c *server.Config) { c.MaxConnections = 6 }, func(r *rig) []server.Port {
					secret := r.port(place{"tcp", loops})
					secret.TLS = enc
					return []server.Port{secret, r.namedPort(1, place{"tcp", loops}), r.namedPort(2, place{"unix", loops})}
				})
				var clients []*client
				for i := range 6 {
					c := r.dialTLSOr(t, roots, i%3)
					c.echo(i)
					clients = append(clients, c)
				}
				if n := r.ran(); m.name != "net" && thread() != 0 && n > loops {
					t.Errorf("the plain ports of %d loops ran on %d threads", loops, n)
				}
				full := r.dialPort(0)
				full.expect(string(server.TLSAlert))
				full.Close()
				full = r.dialPort(2)
				full.expect("port 2 is full\r\n")
				full.Close()
				for i, c := range clients {
					c.say("big 20000\r\necho %d\r\n", i)
				}
				r.end()
				for i, c := range clients {
					c.expectBig(20_000)
					c.expect(fmt.Sprintf("%d\r\n", i))
					c.expectEOF()
					c.Close()
				}
			})
		}
	}
}

// When one of the two engines fails, the other ends too.
func TestBesideEndsTogether(t *testing.T) {
	for _, m := range makers() {
		for _, encrypted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", m.name, encrypted), func(t *testing.T) {
				both := candidate{m.name, func(c server.Config) server.Engine { return newBeside(m.make(c), c) }, nil}
				r := startPorts(t, both, nil, func(r *rig) []server.Port {
					secret, plain := r.port(place{"tcp", 1}), r.port(place{"tcp", 1})
					secret.TLS = new(server.TLS)
					if encrypted {
						secret.Listeners[0] = brokenListener{secret.Listeners[0]}
					} else {
						plain.Listeners[0] = brokenListener{plain.Listeners[0]}
					}
					return []server.Port{secret, plain}
				})
				if err := r.wait(); err == nil {
					t.Error("no error")
				}
				r.stop()
			})
		}
	}
}
