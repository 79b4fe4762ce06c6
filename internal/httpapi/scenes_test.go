package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestConnectionScripts plays testdata/connections.script, each section in a bubble.
func TestConnectionScripts(t *testing.T) {
	script.Run(t, "testdata/connections.script", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			s := &scene{t: t, p: newPipes(), clients: map[string]client{}, ended: make(chan string, 1)}
			t.Cleanup(func() { time.Sleep(time.Second) }) // what is answered although it is not whole is closed later
			play(func(words []string) string {
				began := time.Now()
				said := s.calls().Do(t, words)
				if took := time.Since(began); took > 0 && words[0] != "wait" && words[0] != "ended" {
					said += fmt.Sprintln("after", took)
				}
				synctest.Wait()
				return said
			})
		})
	})
}

// A scene has a server and clients.
type scene struct {
	t       *testing.T
	p       pipes
	l       listening
	clients map[string]client
	ended   chan string
}

func (s *scene) dial(address string) client {
	there, conn := net.Pipe()
	s.p.conns <- from{conn, address}
	there.SetDeadline(time.Now().Add(time.Hour))
	s.t.Cleanup(func() { there.Close() })
	return client{there, bufio.NewReader(there)}
}

// answer is the status of an answer, and whether the connection goes on.
func answer(c client, path string) string {
	switch status, goesOn := c.askOn(path); {
	case status == 0:
		return "closed"
	case !goesOn:
		return fmt.Sprint(status, ", the last")
	default:
		return fmt.Sprint(status)
	}
}

func unescaped(text string) string {
	text = strings.ReplaceAll(text, "BODY", strings.Repeat("x", maxBody+1))
	return strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(text)
}

func (s *scene) calls() script.Calls {
	half := func(n int, address, text string) { // requests of an address, whose rest does not come
		for range n {
			go io.WriteString(s.dial(address), unescaped(text))
		}
		synctest.Wait()
	}
	return script.Calls{
		"server": func(maxConnections int) {
			s.l = new(fixture).listenOn(s.t, maxConnections, s.p, s.p.dial)
		},
		"debug-server": func() {
			s.l = new(fixture).serveOn(s.t, NewDebugServer(false, false, new(events.Log), nil), s.p, s.p.dial)
		},
		"wait":  func(d time.Duration) { time.Sleep(d) },
		"dials": func(name, address string) { s.clients[name] = s.dial(address) },
		"asks":  func(name, path string) string { return answer(s.clients[name], path) },
		"says":  func(name, text string) { go io.WriteString(s.clients[name], unescaped(text)) },
		"reads-to-the-end": func(name string) string {
			b, err := io.ReadAll(s.clients[name].r)
			first, _, _ := strings.Cut(string(b), "\r\n")
			return fmt.Sprintf("%q, %v", first, err)
		},
		"reads-an-answer": func(name string) string {
			line, err := s.clients[name].r.ReadString('\n')
			return fmt.Sprintf("%q, %v", line, err)
		},
		"closes":   func(name string) { s.clients[name].Close() },
		"newcomer": func(address, path string) string { return answer(s.dial(address), path) },
		"silent": func(n int) { // connections, named s0 and so on
			for range n {
				s.clients[fmt.Sprint("s", len(s.clients))] = s.dial("10.0.0.1")
			}
		},
		"closed": func(from, until int) string { // of the silent ones
			for i := from; i < until; i++ {
				if !s.clients[fmt.Sprint("s", i)].closed() {
					return fmt.Sprint("not s", i)
				}
			}
			return "all"
		},
		"halves": half,
		// A newcomer of one address asks again and again, while the other address goes on.
		"probes": func(n int, address, path, other, text string) string {
			answers, began := map[string]int{}, time.Now()
			for range n {
				c := s.dial(address)
				answers[answer(c, path)]++
				c.Close()
				synctest.Wait()
				half(2, other, text)
			}
			if took := time.Since(began); took > time.Duration(n)*patience {
				return fmt.Sprint(answers, " after ", took)
			}
			return strings.TrimPrefix(fmt.Sprint(answers), "map")
		},
		"counts": func() string {
			n := &s.l.counts
			return fmt.Sprintf("%d open, %d refused, %d evicted", n.Connections.Load(), n.ConnectionsRefused.Load(),
				n.ConnectionsEvicted.Load())
		},
		"within-the-limit": func(limit int) bool {
			s.l.conns.mu.Lock()
			defer s.l.conns.mu.Unlock()
			return len(s.l.conns.open) <= limit+Reserve
		},
		"newcomers-are-refused-at-once": func() bool {
			s.l.conns.mu.Lock()
			defer s.l.conns.mu.Unlock()
			return s.l.conns.stuck
		},
		"shuts-down": func(within time.Duration) {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), within)
				defer cancel()
				began := time.Now()
				err := s.l.Shutdown(ctx)
				s.ended <- fmt.Sprint("after ", time.Since(began).Truncate(settleTime), ", ", err)
			}()
		},
		"ended": func() string { return <-s.ended },
	}
}
