package engines

import (
	"errors"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"net"
	"os"
	"strings"
	"testing"
)

// mixes lists the places of engines that serve several ports.
var mixes = [][]place{
	{{"tcp", 1}, {"unix", 1}},
	{{"tcp", 2}, {"unix", 2}},
	{{"unix", 2}, {"tcp", 2}, {"unix", 1}, {"tcp", 1}},
}

func loopsOf(mix []place) (n int) {
	for _, p := range mix {
		n = max(n, p.loops)
	}
	return n
}

// onMixes runs a test on every engine, with several ports. Under the race detector one of the first two mixes is
// enough for a test, and the third.
func onMixes(t *testing.T, change func(*server.Config), test func(t *testing.T, r *rig, m candidate, mix []place)) {
	for _, m := range makers() {
		for i, mix := range mixes {
			if halved() && i == len(t.Name())%2 {
				continue
			}
			t.Run(m.name+strings.NewReplacer("[", "/", "]", "", "{", "", "}", "", " ", "").Replace(fmt.Sprint(mix)),
				func(t *testing.T) {
					r := startPorts(t, m, change, func(r *rig) (ports []server.Port) {
						for i, p := range mix {
							ports = append(ports, r.namedPort(i, p))
						}
						return ports
					})
					test(t, r, m, mix)
				})
		}
	}
}

// namedPort is a port whose replies contain its name.
func (r *rig) namedPort(i int, p place) server.Port {
	port := r.port(p)
	port.Refusal, port.OutOfMemory = fmt.Appendf(nil, "port %d is full\r\n", i),
		fmt.Appendf(nil, "port %d is out of memory\r\n", i)
	open := port.Open
	port.Open = func(loop int, _ *latency.Asked) server.Session {
		return &namedSession{lineSession: open(loop, nil).(*countedSession).lineSession, r: r, port: i, loop: loop}
	}
	return port
}

// A namedSession replies with its port, and records on which threads its loop runs.
type namedSession struct {
	lineSession
	r          *rig
	port, loop int
}

func (s *namedSession) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	s.r.threads.Store([2]int{s.loop, thread()}, true)
	if string(in) == "port?\n" {
		return len(in), fmt.Appendf(out, "port %d\r\n", s.port), nil
	}
	return s.lineSession.Feed(now, in, out)
}

// ran returns how many pairs of loop and thread there were.
func (r *rig) ran() (n int) {
	r.threads.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

// Each port has its own sessions, and loop i of every port runs on the same thread.
func TestPortsShareTheLoops(t *testing.T) {
	onMixes(t, nil, func(t *testing.T, r *rig, m candidate, mix []place) {
		var clients []*client
		for i := range 20 * len(mix) {
			c := r.dialPort(i % len(mix))
			c.say("port?\n")
			c.expect(fmt.Sprintf("port %d\r\n", i%len(mix)))
			clients = append(clients, c)
		}
		for i, c := range clients {
			c.say("echo %d\r\nbig 20000\r\n", i)
		}
		for i, c := range clients {
			c.expect(fmt.Sprintf("%d\r\n", i))
			c.expectBig(20_000)
			c.Close()
		}
		if n := r.ran(); m.name != "net" && thread() != 0 && n != loopsOf(mix) {
			t.Errorf("the sessions of %d loops ran on %d threads", loopsOf(mix), n)
		}
	})
}

// The end of a client's input is found after any other input, on both kinds of socket, even if both have arrived when
// the loop gets to the connection, or before the connection is accepted. (Only unix sockets are watched at once.)
func TestHalfCloseBehindMuchInput(t *testing.T) {
	onMixes(t, nil, func(t *testing.T, r *rig, m candidate, mix []place) {
		loops := loopsOf(mix)
		if m.name == "net" {
			loops = 0 // it has none
		}
		b := r.newBrake(loops)
		for _, part := range []int{0, 1, 4} {
			var clients []*client
			for i := range mix {
				known := r.dialPort(i)
				known.echo(1)
				clients = append(clients, known)
			}
			b.stop()
			for i := range mix {
				clients = append(clients, r.dialPort(i))
			}
			lines := func(i int) int { // their sockets must have room for them
				if mix[i%len(mix)].network == "unix" {
					return 1 + part*2470
				}
				return 1 + part*4950
			}
			for i, c := range clients {
				c.say("%s", strings.Repeat("echo 123\r\n", lines(i)))
				c.closeWrite()
			}
			b.release()
			for i, c := range clients {
				c.expect(strings.Repeat("123\r\n", lines(i)))
				c.expectEOF()
				c.Close()
			}
		}
		b.close()
		eventually(t, func() string { return r.open(0) })
	})
}

// All ports count towards one limit, and each has its own refusal. A connection that has gone makes room.
func TestConnectionLimit(t *testing.T) {
	onMixes(t, func(c *server.Config) { c.MaxConnections = 4 }, func(t *testing.T, r *rig, m candidate, mix []place) {
		var clients []*client
		for i := range 4 {
			c := r.dialPort(i % len(mix))
			c.echo(1)
			clients = append(clients, c)
		}
		for i := range mix {
			c := r.dialPort(i)
			c.expect(fmt.Sprintf("port %d is full\r\n", i))
			c.expectEOF()
			c.Close()
		}
		if n := r.counters.Refused.Load(); n != uint64(len(mix)) {
			t.Errorf("%d connections refused, want %d", n, len(mix))
		}
		if n := r.counters.Total.Load(); n != uint64(4+len(mix)) {
			t.Errorf("%d connections in all, want %d", n, 4+len(mix))
		}
		clients[0].Close()
		eventually(t, func() string { return r.open(3) })
		r.greeted()
	})
}

// All ports share the budget, and a connection that is closed gets its own port's message.
func TestPortsShareTheBudget(t *testing.T) {
	onMixes(t, limited(1<<18), func(t *testing.T, r *rig, m candidate, mix []place) {
		for i := range mix {
			before := r.budget.Closed()
			small := r.dialPort((i + 1) % len(mix))
			small.hold(r, 20_000)
			c := r.dialPort(i)
			for sent := 0; r.budget.Closed() == before && sent < 1<<18; sent += 10_000 {
				c.say("%s", strings.Repeat("x", 10_000)) // one line
				eventually(t, func() string {
					if held := r.budget.Held(); held > r.budget.Limit() && r.budget.Closed() == before {
						return fmt.Sprintf("%d bytes held", held)
					}
					return ""
				})
			}
			c.expect(fmt.Sprintf("port %d is out of memory\r\n", i))
			c.expectEOF()
			eventually(t, func() string { // it is counted after it is told
				if closed := r.budget.Closed(); closed != before+1 {
					return fmt.Sprintf("%d closed, want %d", closed, before+1)
				}
				return ""
			})
			c.Close()
			small.say("\r\n")
			small.expect(strings.Repeat("x", 20_000-len("echo ")) + "\r\n")
			small.Close()
			eventually(t, r.nothingHeld)
		}
	})
}

// Clients that reset their connections, on all ports: sockets accepted by the kernel and sockets brought by a dealer
// reuse each other's slots.
func TestQuitStormOnEveryPort(t *testing.T) {
	onMixes(t, nil, func(t *testing.T, r *rig, m candidate, mix []place) {
		r.storm(m, true)
	})
}

// Input that has arrived at any port when the daemon is told to stop is answered, even on a connection that is not
// accepted yet.
func TestDrainAnswersWhatHasArrived(t *testing.T) {
	onMixes(t, nil, func(t *testing.T, r *rig, m candidate, mix []place) {
		var clients []*client
		for i := range 8 * len(mix) {
			c := r.dialPort(i % len(mix))
			if i%3 == 0 {
				c.echo("first")
			}
			clients = append(clients, c)
		}
		silent := r.dial()
		silent.say("echo unfinished")
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
		silent.expectEOF()
		r.stop()
		for _, a := range r.ports {
			if c, err := net.Dial(a.Network(), a.String()); err == nil {
				c.Close()
				t.Errorf("still listening at %v after Serve has returned", a)
			}
			if _, err := os.Lstat(a.String()); a.Network() == "unix" && !os.IsNotExist(err) {
				t.Errorf("the file of %v is still there", a)
			}
		}
	})
}

// brokenListener cannot be served.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// When one port cannot be served, the error says why, and nothing of the other ports is left
// behind.
func TestOnePortFails(t *testing.T) {
	for _, m := range makers() {
		for _, loops := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", m.name, loops), func(t *testing.T) {
				r := startPorts(t, m, nil, func(r *rig) []server.Port {
					broken := r.port(place{"tcp", loops})
					broken.Listeners[loops-1] = brokenListener{broken.Listeners[loops-1]}
					return []server.Port{r.port(place{"tcp", loops}), r.port(place{"unix", loops}), broken}
				})
				if err := r.wait(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("error %v, want one of the listener", err)
				}
				r.stop()
			})
		}
	}
}

// An event loop reports that it cannot encrypt, and never serves in plain text what should be
// encrypted.
func TestEventLoopsDoNotEncrypt(t *testing.T) {
	for _, m := range makers() {
		if m.name == "net" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			r := startPorts(t, m, nil, func(r *rig) []server.Port {
				secret := r.port(place{"tcp", 2})
				secret.TLS = new(server.TLS)
				return []server.Port{r.port(place{"unix", 2}), secret}
			})
			if err := r.wait(); err == nil || !strings.Contains(err.Error(), "do not encrypt") {
				t.Errorf("error %v", err)
			}
		})
	}
}
