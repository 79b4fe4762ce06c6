package engines

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScenes plays testdata/scenes.script on every engine, in every place.
func TestScenes(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) { playScenes(t, "scenes", m, m, p) })
}

// TestMoves plays testdata/moves.script on all pairs of engines.
func TestMoves(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to candidate, p place) { playScenes(t, "moves", from, to, p) })
}

// TestBesideScenes plays testdata/beside.script: an encrypted port is served beside a plain one.
func TestBesideScenes(t *testing.T) {
	for _, m := range makers() {
		both := candidate{m.name, func(c server.Config) server.Engine { return newBeside(m.make(c), c) }, nil}
		t.Run(m.name, func(t *testing.T) { playScenes(t, "beside", both, m, place{"tcp", 1}) })
	}
}

func playScenes(t *testing.T, file string, m, other candidate, p place) {
	script.RunAs(t, "testdata/"+file+".script", m.name, func(t *testing.T, play func(script.Do)) {
		s := &scene{t: t, candidates: map[string]candidate{"": m, "other": other}, p: p, beside: file == "beside",
			rigs: map[string]*rig{}, clients: map[string]*client{}}
		if s.beside {
			s.roots, s.enc = newTLS(t)
		}
		play(func(words []string) string { return s.calls().Do(t, words) })
	})
}

// A scene has engines and their clients. Clients connect to the engine that was started or named last.
type scene struct {
	t          *testing.T
	candidates map[string]candidate // by the engine's name; "other" is for all but the first
	p          place
	beside     bool // the first port is encrypted
	roots      *x509.CertPool
	enc        *server.TLS

	*rig
	rigs    map[string]*rig
	clients map[string]*client
	crowd   []*client
	brake   *brake
	moved   []server.Moved
	frozen  chan []server.Moved
	mark    struct{ asked, fed int64 }
}

// engine starts one with settings.
func (s *scene) engine(name string, settings ...string) {
	m := s.candidates[""]
	if len(s.rigs) > 0 {
		m = s.candidates["other"]
	}
	change := func(c *server.Config) {
		for _, setting := range settings {
			key, value, _ := strings.Cut(setting, "=")
			n, _ := strconv.Atoi(value)
			d, _ := time.ParseDuration(value)
			switch key {
			case "unpolled":
				unpolled(c)
			case "linger":
				c.Linger = d
			case "drain":
				c.DrainTimeout = d
			case "connections":
				c.MaxConnections = int64(n)
			case "budget":
				c.Budget = server.NewBudget(int64(n))
			}
		}
	}
	s.rig = startPorts(s.t, m, change, func(r *rig) []server.Port {
		port := r.port(s.p)
		switch {
		case s.beside && len(s.rigs) == 0:
			return []server.Port{r.portTLS(s.enc, 1), port}
		case len(settings) > 0 && settings[0] == "greets":
			port.Open = func(int, *latency.Asked) server.Session { return greeter{} }
		}
		return []server.Port{port}
	})
	s.rigs[name] = s.rig
}

// line is a line that was read, without its end; what is repeated in it stands once, before its number.
func line(text string) string {
	text = strings.TrimRight(text, "\r\n")
	for _, n := range []int{1, 10} {
		if len(text) < 100 {
			break
		}
		rest, k := text, 0
		for strings.HasPrefix(rest, text[:n]) {
			rest, k = rest[n:], k+1
		}
		if k > 10 {
			return fmt.Sprintf("{%s*%d}%s", text[:n], k, rest)
		}
	}
	return text
}

var repeated = regexp.MustCompile(`(?s)\{(.*?)\*(\d+)\}`)

// bytesOf is what a word stands for: \r and \n, and {x*250} for 250 of x.
func bytesOf(word string) string {
	word = strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(word)
	return repeated.ReplaceAllStringFunc(word, func(part string) string {
		m := repeated.FindStringSubmatch(part)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
}

// told is what an engine answered to its control.
func told(err error) string {
	if err == nil {
		return ""
	}
	return "error: " + err.Error()
}

// calls are the words of scenes.
func (s *scene) calls() script.Calls {
	calls := script.Calls{
		"engine":  s.engine,
		"at":      func(name string) { s.rig = s.rigs[name] },
		"ends":    func() { s.rig.end() },
		"stops":   func() { s.rig.stop() },
		"returns": func() string { return told(s.wait()) },
		"wakes":   func() { s.rig.engine.Wake() },
		"fill":    func(n int) { s.fill(n) },
		"add":     func(n int) { s.well.tickets.Add(int64(n)) }, // and wake nobody
		"in-vain": func() int64 { return s.well.asked.Load() - s.mark.asked },
		"open":    func() int64 { return s.counters.Current.Load() },
		"counts": func() string {
			return fmt.Sprintf("%d accepted, %d refused", s.counters.Total.Load(), s.counters.Refused.Load())
		},
		"mark":  func() { s.mark.asked, s.mark.fed = s.well.asked.Load(), s.feeds.begun.Load() },
		"waits": func(n int) { s.parked(s.mark.asked, n) },
		"asked": func() string {
			return fmt.Sprintf("%d times", s.feeds.begun.Load()-s.mark.fed)
		},
		"calm":    s.calm,
		"written": func(n uint64) { s.writes(n) },
		"file": func() string {
			if _, err := os.Lstat(s.address); s.network == "unix" && err != nil {
				return "gone"
			}
			return "there"
		},
		"time-passes": func() { // for another engine
			for i := range 20 {
				s.clients["witness"].echo(i)
			}
		},
		"crowd": func(n int) {
			for i := range n {
				c := s.dial()
				c.say("echo %d\r\n", i)
				s.crowd = append(s.crowd, c)
			}
		},
		"crowd-reads": func() {
			for i, c := range s.crowd {
				c.expect(fmt.Sprintf("%d\r\n", i))
				c.expectEOF()
				c.Close()
			}
		},
		"holders": func() { // until a client is closed for what all hold
			for s.budget.Closed() == 0 {
				s.dial().hold(s.rig, 10_000)
			}
		},
	}
	s.controlCalls(calls)
	s.clientCalls(calls)
	return calls
}

// controlCalls adds what freezes and moves.
func (s *scene) controlCalls(calls script.Calls) {
	calls["freezes"] = func() string {
		s.moved = s.freeze()
		return fmt.Sprint(len(s.moved), " connections")
	}
	calls["freezes-in-vain"] = func() string {
		_, err := s.rig.engine.Freeze(context.Background())
		return told(err)
	}
	calls["begins-to-freeze"] = func() { // a held loop
		s.frozen = make(chan []server.Moved, 1)
		go func(r *rig) { s.frozen <- r.freeze() }(s.rig)
	}
	calls["frozen"] = func() string {
		select {
		case s.moved = <-s.frozen:
			return fmt.Sprint(len(s.moved), " connections")
		default:
			return "not yet"
		}
	}
	calls["gives-up-freezing"] = func() string { // as its caller, while the loops are held
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := s.rig.engine.Freeze(ctx)
			ended <- err
		}()
		cancel()
		err := <-ended
		return fmt.Sprint("given up: ", errors.Is(err, context.Canceled))
	}
	calls["thaws"] = func() string { return told(s.rig.engine.Thaw(s.moved)) }
	calls["thaws-empty"] = func() string { return told(s.rig.engine.Thaw(nil)) }
	calls["adopts"] = func() { s.adopt(s.moved) }
	calls["adopts-one"] = func(how ...string) string {
		moved := s.moved[0]
		switch strings.Join(how, "") {
		case "port":
			moved.Port = "no"
		case "state":
			moved.State = []byte("nonsense")
		case "descriptor":
			moved.FD = 1 << 20
		}
		return told(s.rig.engine.Adopt(moved))
	}
	calls["brake"] = func() { s.brake = s.newBrake(s.p.loops) }
	calls["brakes"] = func() { s.brake.stop() }
	calls["goes-on"] = func() { s.brake.release() }
	calls["without-brake"] = func() { s.brake.close() }
	calls["held"] = func() { <-s.rig.held }
	calls["freed"] = func() { <-s.freed }
}

// clientCalls adds what begins with a client.
func (s *scene) clientCalls(calls script.Calls) {
	on := func(do func(c *client)) func(string) { return func(name string) { do(s.clients[name]) } }
	calls["dials"] = func(name string) { s.clients[name] = s.dialPort(len(s.ports) - 1) }
	calls["dials-tls"] = func(name string) { s.clients[name] = s.dialTLSOr(s.t, s.roots, 0) }
	calls["says"] = func(name, text string) { s.clients[name].say("%s", bytesOf(text)) }
	calls["reads"] = func(name string, n int) string {
		var b strings.Builder
		for range n {
			text, err := s.clients[name].r.ReadString('\n')
			fmt.Fprintln(&b, line(text))
			if err != nil {
				return b.String() + err.Error()
			}
		}
		return b.String()
	}
	calls["reads-big"] = func(name string, n int) { s.clients[name].expectBig(n) }
	calls["reads-part"] = func(name string, n, left int) { s.clients[name].expectPart(left, n) }
	calls["closes-input"] = on((*client).closeWrite)
	calls["aborts"] = on((*client).abort)
	calls["closes"] = on(func(c *client) { c.Close() })
	calls["ends-here"] = func(name string) string {
		rest, err := io.ReadAll(s.clients[name].r)
		if err != nil {
			return err.Error()
		}
		return "EOF" + string(bytes.TrimSpace(rest))
	}
	calls["chats"] = func(name string) {
		go func() {
			for {
				if _, err := s.clients[name].Write([]byte("echo 1\r\n")); err != nil {
					return
				}
			}
		}()
	}
	calls["others-say"] = func(text string) { // and reset their connections
		for range 20 {
			c := s.dial()
			c.say("%s", bytesOf(text))
			c.abort()
		}
	}
}
