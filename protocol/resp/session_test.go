package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// A session is no larger than memcache's: each idle connection has one.
func TestASessionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Session{}); size > 32 {
		t.Errorf("a session takes %d bytes", size)
	}
}

// manyKeys writes an MGET of n keys of several sources.
func manyKeys(r *rand.Rand, n int) []byte {
	args := []string{"MGET"}
	for range n {
		args = append(args,
			[...]string{"id", "orders", "flake", "d:typo", "uuid", strings.Repeat("k", r.IntN(250))}[r.IntN(6)*r.IntN(2)])
	}
	if r.IntN(2) == 0 && n < maxArgs {
		line := strings.Join(args, " ")
		if strings.Contains(line, "  ") || strings.HasSuffix(line, " ") || len(line) > maxInline-2 {
			return frame(args...)
		}
		return []byte(line + "\r\n")
	}
	return frame(args...)
}

// An MGET of any length, alone or in a transaction, is answered alike however its bytes are cut and
// whenever its sources wait, and each id of the answer was issued once.
func TestLongMGETs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, i))
		in := bytes.Join([][]byte{manyKeys(r, 1+r.IntN(6000)), frame("PING")}, nil)
		if r.IntN(2) == 0 {
			in = bytes.Join([][]byte{frame("MULTI"), manyKeys(r, 1+r.IntN(3000)), frame("INCR", "orders"),
				manyKeys(r, 1+r.IntN(3000)), frame("EXEC"), frame("GET", "id")}, nil)
		}
		budget, atMost := r.IntN(3000), r.IntN(200)
		grammar.Alike(t, func() transcript.Client {
			f := newFake()
			f.Budget, f.Most = budget, atMost
			s := newSession(f)
			c := clientOf(s)
			c.Resume = func(state []byte) (next transcript.Session, err error) {
				s, err = Resume(s.config, true, state)
				return s, err
			}
			c.Counted = func() protocol.Counts {
				if s.state != start || s.queued != 0 || s.args != 0 || s.commands != 0 || s.is != inline {
					t.Errorf("seed %d+%d: the session is not as it was: %+v", seed, i, s)
				}
				return counted(s)
			}
			return c
		}, in, seed+i)
	}
}

// The limits of a transaction. Nothing of one that is refused is run.
func TestLimitsOfATransaction(t *testing.T) {
	ping, long := frame("INCR", "orders"), frame("ECHO", strings.Repeat("x", maxMessage))
	for _, c := range []struct {
		name    string
		command []byte
		n       int
		fits    bool
	}{
		{"as many commands as there may be", ping, maxTransaction, true},
		{"one more", ping, maxTransaction + 1, false},
		{"as many bytes as there may be", long, maxCommand / len(long), true},
		{"too many bytes", long, maxCommand/len(long) + 1, false},
		{"ignored frames", []byte("*0\r\n"), 2*maxCommand/4 + 9, false},
		{"commands that are refused at once", frame("MULTI"), 2*maxCommand/15 + 9, false},
	} {
		f := newFake()
		s := newSession(f)
		c0 := transcript.Conversation{T: t, Session: s, Most: most}
		c0.Feed(frame("MULTI"))
		batch := c.n/7 + 1
		for n := c.n; n > 0; n -= batch {
			c0.Feed(bytes.Repeat(c.command, min(n, batch)))
		}
		c0.Reply = nil
		c0.Feed(append(frame("EXEC"), frame("GET", "id")...))
		if aborted := bytes.HasPrefix(c0.Reply, []byte("-EXECABORT ")); aborted == c.fits {
			t.Errorf("%s: %.60q", c.name, c0.Reply)
		}
		if !bytes.HasSuffix(c0.Reply, []byte("$3\r\n100\r\n")) {
			t.Errorf("%s: the next command was answered %.60q", c.name, c0.Reply[max(0, len(c0.Reply)-60):])
		}
		if want := map[bool]int{true: c.n}[c.fits && &c.command[0] == &ping[0]]; f.Used["orders"] != want {
			t.Errorf("%s: %d ids were issued, want %d", c.name, f.Used["orders"], want)
		}
	}
}

// Half a command keeps only what arrived; a claimed length allocates nothing, and a second look at the
// same bytes starts where the first one ended.
func TestHalfACommand(t *testing.T) {
	whole := bytes.TrimSuffix(frame(append([]string{"MGET"}, strings.Split(strings.Repeat("k ", 9000), " ")...)...),
		[]byte("\r\n"))
	for _, in := range [][]byte{[]byte("*16385\r\n$4\r\nmget\r\n$1000000\r\nx"), []byte("*1000\r\n$100"), whole,
		bytes.Repeat([]byte("x "), 20000)} {
		s := newSession(newFake())
		out := make([]byte, 0, 64)
		if n := testing.AllocsPerRun(10, func() {
			if n, reply, err := s.Feed(transcript.Now, in, out); n != 0 || len(reply) != 0 || err != nil {
				t.Fatalf("%.20q: %d %q %v", in, n, reply, err)
			}
		}); n != 0 {
			t.Errorf("%.40q: %v allocations", in, n)
		}
		if left := len(in) - int(s.scanned); left > 20 {
			t.Errorf("%.40q: %d bytes will be looked at again", in, left)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	inputs := [][]byte{
		frame("GET", "id"), frame("get", "orders"), frame("INCR", "id"), frame("INCRBY", "orders", "10"),
		bytes.Repeat(frame("GET", "id"), 16),
		frame("MGET", "id", "a", "b", "c"),
		frame(append([]string{"MGET"}, strings.Split(strings.Repeat("k ", 99), " ")...)...),
		frame("PING"), frame("PING", "hello"), frame("SELECT", "0"), frame("EXISTS", "a", "b"), frame("TIME"),
		frame("SET", "a", "b"), frame("CLIENT", "SETINFO", "lib-name", "x"),
		[]byte("get id\r\nmget a b c\r\nping\r\n"),
		bytes.Join([][]byte{frame("MULTI"), frame("GET", "a"), frame("INCR", "id"), frame("EXEC")}, nil),
		frame("HELLO", "3"), frame("nonsense", "a"), frame("GET"),
	}
	for _, in := range inputs {
		s := NewSession(&protocol.Config{Handler: &counting{}, Counters: new(protocol.Counters), Version: "1.0.0"}, true)
		s.id()
		out := make([]byte, 0, 1<<20)
		if n := testing.AllocsPerRun(100, func() {
			if n, _, err := s.Feed(transcript.Now, in, out); n != len(in) || err != nil {
				t.Fatal(n, err)
			}
		}); n != 0 {
			t.Errorf("%.40q...: %v allocations", in, n)
		}
	}
}

// counting is the simplest source behind the protocol: consecutive ids.
type counting struct{ next uint64 }

func (c *counting) Source([]byte) id.Source { return c }
func (c *counting) Named([]byte) id.Source  { return c }
func (c *counting) Mint(_ id.When, n int, _ bool) (id.Run, error) {
	c.next += uint64(n)
	return id.Run{First: 1_500_000_000_000_000_000 + c.next, Stride: 1, N: n}, nil
}
func (c *counting) Reserve(when id.When, n int) (id.Run, error) { return c.Mint(when, n, false) }
func (*counting) Stats([]byte, func(name, value string)) bool   { return true }

func BenchmarkFeed(b *testing.B) {
	for _, c := range []struct {
		name string
		in   []byte
		ids  int
	}{
		{"get", frame("GET", "id"), 1}, {"incr", frame("INCR", "orders"), 1}, {"incrby", frame("INCRBY", "orders", "1"), 1},
		{"pipeline16", bytes.Repeat(frame("INCR", "orders"), 16), 16},
		{"mget100", frame(append([]string{"MGET"}, strings.Fields(strings.Repeat("key ", 100))...)...), 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := NewSession(&protocol.Config{Handler: &counting{}, Counters: new(protocol.Counters), Version: "1.0.0"}, false)
			out := make([]byte, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				if n, _, err := s.Feed(0, c.in, out); n != len(c.in) || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.ids), "ns/id")
		})
	}
}

// The numbers of connections are counted over all loops, and only for connections that ask.
func TestNumbersOfConnections(t *testing.T) {
	numbers := new(atomic.Int64)
	var sessions []*Session
	for range 3 {
		s := newSession(newFake())
		s.config.Clients = numbers
		sessions = append(sessions, s)
	}
	for _, c := range []struct {
		session int
		want    string
	}{{2, ":1\r\n"}, {0, ":2\r\n"}, {2, ":1\r\n"}} {
		if got := answerTo(t, sessions[c.session], frame("CLIENT", "ID")); string(got) != c.want {
			t.Errorf("session %d: %q, want %q", c.session, got, c.want)
		}
	}
	if sessions[1].client != nil {
		t.Error("a connection that has not asked takes memory")
	}
}

// TestSessions: what a Feed that must wait, is refused or takes long has consumed, answered, counted and asked for, and
// what the next one adds.
func TestSessions(t *testing.T) {
	steps.Run(t, "testdata/sessions.steps", func(t *testing.T) steps.Calls {
		f := newFake()
		session := newSession(f)
		s := &transcript.Scene{T: t, Session: session, Config: session.config, Most: most, Lines: transcript.Lines,
			Handler: func(why error) protocol.Handler {
				if why == nil {
					return f
				}
				refusing := newFake()
				refusing.Refusal = why
				return refusing
			}}
		s.Besides = func(add func(string)) {
			if len(f.Log) > 0 {
				add("asked for " + strings.Join(f.Log, ", "))
			}
			if len(f.moments) > 0 {
				add(fmt.Sprint("at ", f.moments))
			}
			f.Log, f.moments = nil, nil
			if session.state != start || session.queued != 0 || session.args != 0 || session.commands != 0 {
				add("in the middle of a command")
			}
		}
		return s.Calls(steps.Calls{
			"most":   func(n int) { f.Most = n },
			"budget": func(n int) { f.Budget = n },
			"turns":  func(script string) { f.Turns = script },
			"guard":  func() { s.Config.Handler = transcript.Guarded{Handler: f} },
			"refuse": func(why string) { s.Config.Handler = s.Handler(errors.New(why)) },
			"cluster": func() {
				s.Config.Topology = func() protocol.Topology { return clusterOf(0) }
			},
			"move": func() error { // to another process
				state, _ := session.Freeze()
				thawed, err := Resume(s.Config, false, state)
				s.Session, session = thawed, thawed
				return err
			},
		})
	})
}
