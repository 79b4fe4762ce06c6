package memcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// A patient source waits whenever its turn to is written in a script: w means wait, i means issue.
type patient struct {
	*fakeSource
	script string
}

func (p *patient) Source(key []byte) id.Source {
	if s := p.fakeSource.Source(key); s != &p.sources[0] {
		return s
	}
	return p
}

func (p *patient) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	wait := p.script != "" && p.script[0] == 'w'
	if p.script != "" {
		p.script = p.script[1:]
	}
	if wait {
		return id.Run{}, id.ErrWait
	}
	return p.fakeSource.Mint(when, n, bulk)
}

// What a Feed that must wait has consumed, answered and counted, and what the next one adds.
func TestWaiting(t *testing.T) {
	for _, c := range []struct{ name, script, in, first, rest, counts, counted string }{
		{"one key", "w", "get a\r\n", "", "get a\r\n", "", "1 get 1 id"},
		{"one key behind others", "iw", "get a\r\ngets b\r\n", "VALUE a 0 3\r\n100\r\nEND\r\n", "gets b\r\n", "1 get 1 id",
			"1 get 1 gets 2 id"},
		{"a long line of one key", "w", "get" + strings.Repeat(" ", 3000) + "a\r\n", "",
			"get" + strings.Repeat(" ", 3000) + "a\r\n", "", "1 get 1 id"},
		{"the first of several", "w", "get a b\r\n", "", "a b\r\n", "1 get", "1 get 2 id"},
		{"the last of several", "iw", "get a b\r\n", "VALUE a 0 3\r\n100\r\n", " b\r\n", "1 get 1 id", "1 get 2 id"},
		{"in the middle, behind another source", "w", "gat 0  a:1 a:2  a b \r\n",
			"VALUE a:1 0 7\r\n1000000\r\nVALUE a:2 0 7\r\n1000002\r\n", "  a b \r\n", "1 gat 2 id", "1 gat 4 id"},
		{"meta", "iw", "mg a v\r\nmg b v k q\r\n", "VA 3\r\n100\r\n", "mg b v k q\r\n", "1 mg 1 id", "2 mg 2 id"},
		{"me", "w", "me a\r\n", "", "me a\r\n", "", "1 meta 1 id"},
		{"binary", "w", string(frameOf(0x09, "", "a", "")), "", string(frameOf(0x09, "", "a", "")), "", "1 get 1 id"},
		{"binary gat", "w", string(frameOf(0x23, "1234", "a", "")), "", string(frameOf(0x23, "1234", "a", "")), "",
			"1 gat 1 id"},
	} {
		f := newFake()
		f.most = 1
		p := &patient{&f.sources[0], c.script}
		s := newSession(f)
		s.config.Handler = p
		n, out, err := s.Feed(1, []byte(c.in), nil)
		if err != id.ErrWait || string(out) != c.first || c.in[n:] != c.rest || tell(s) != c.counts {
			t.Errorf("%s: %v, said %q, left %q, counted %q; want %q, %q, %q", c.name, err, out, c.in[n:], tell(s), c.first,
				c.rest, c.counts)
		}
		again, more, err := s.Feed(1, []byte(c.in[n:]), out)
		if straight := answerTo(t, newSession(newFake()), []byte(c.in)); err != nil || n+again != len(c.in) ||
			!bytes.Equal(more, straight) {
			t.Errorf("%s: %v, then said %q, want %q", c.name, err, more, straight)
		}
		if tell(s) != c.counted {
			t.Errorf("%s: counted %q in all, want %q", c.name, tell(s), c.counted)
		}
		if s.state != line && s.state != frame {
			t.Errorf("%s: the session is not as it was: %+v", c.name, s)
		}
	}
}

// tell says what a session counted.
func tell(s *Session) string {
	var b strings.Builder
	n := counted(s)
	for _, c := range []struct {
		counter protocol.Counter
		name    string
	}{{protocol.CmdGet, "get"}, {protocol.CmdGets, "gets"}, {protocol.CmdGat, "gat"}, {protocol.CmdMetaGet, "mg"},
		{protocol.CmdIDs, "ids"}, {protocol.CmdMeta, "meta"},
		{protocol.CmdIncr, "incr"}, {protocol.IDs, "id"}, {protocol.Refused, "refused"}, {protocol.IncrHits, "hits"}} {
		if n[c.counter] > 0 {
			fmt.Fprintf(&b, " %d %s", n[c.counter], c.name)
		}
	}
	return strings.TrimPrefix(b.String(), " ")
}

// A datagram whose request must wait gets no reply, also if it must wait only for its last key.
func TestWaitingDatagrams(t *testing.T) {
	for _, script := range []string{"w", "iw"} {
		f := newFake()
		f.most = 1
		s := newSession(f)
		s.config.Handler = &patient{&f.sources[0], script}
		in := []byte("\x00\x07\x00\x00\x00\x01\x00\x00gets key1 key2\r\n")
		if out := Datagram(s.config, 1, in, []byte("before")); string(out) != "before" {
			t.Errorf("%s: said %q", script, out)
		}
		out := Datagram(s.config, 1, in, nil)
		if !bytes.HasPrefix(out, []byte("\x00\x07\x00\x00\x00\x01\x00\x00VALUE key1 ")) ||
			!bytes.HasSuffix(out, []byte("END\r\n")) {
			t.Errorf("%s, asked again: said %q", script, out)
		}
	}
}

// What is answered before a wait is sent, so that the session holds nothing of it. An error after
// the wait takes the place of END.
func TestRefusedAfterWaiting(t *testing.T) {
	f := newFake()
	f.most, f.budget = 1, 2
	s := newSession(f)
	s.config.Handler = &patient{&f.sources[0], "iwi"}
	in := []byte("gets a b c d\r\n")
	n, out, err := s.Feed(1, in, nil)
	if err != id.ErrWait || string(out) != "VALUE a 0 3 100\r\n100\r\n" || string(in[n:]) != " b c d\r\n" {
		t.Errorf("%v, said %q, left %q", err, out, in[n:])
	}
	again, out, err := s.Feed(1, in[n:], nil)
	if err != nil || n+again != len(in) || string(out) != "VALUE b 0 3 101\r\n101\r\nSERVER_ERROR no id  for now\r\n" {
		t.Errorf("then %v, said %q, left %q", err, out, in[n+again:])
	}
	if got, want := tell(s), "1 gets 2 id 2 refused"; got != want {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// withoutLost removes the ids of get lines that were refused later: how many a client sees of these
// depends on where the line had to wait.
func withoutLost(answer []byte) []byte { return lost.ReplaceAll(answer, []byte("$1")) }

var lost = regexp.MustCompile(`(?:VALUE [^\n]*\n[^\n]*\n)+((?:SERVER|CLIENT)_ERROR )`)

// countedAsked is counted with hits and misses as one figure, for the same reason.
func countedAsked(s *Session) protocol.Counts {
	n := counted(s)
	n[protocol.IDs] += n[protocol.Refused]
	n[protocol.Refused] = 0
	return n
}

// A get line that waits in any piece is answered as one that never waits, but for the ids that were
// sent before an error.
func TestWaitingInLongLines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, i))
		in := []byte("gets")
		for range 1 + r.IntN(2000) {
			in = fmt.Appendf(in, " %s%s", [...]string{"", "a:", "orders", "uuid", "ulid"}[r.IntN(5)*r.IntN(2)],
				strings.Repeat("k", r.IntN(80)*r.IntN(2)*r.IntN(2)))
			if in[len(in)-1] == ' ' {
				in = append(in, 'k')
			}
		}
		in = append(in, "\r\nversion\r\n"...)
		budget, most := r.IntN(3000), r.IntN(200)
		session := func() (*Session, *fake) {
			f := newFake()
			f.budget, f.most = budget, most
			return newSession(f), f
		}
		straight, _ := session()
		want := answerTo(t, straight, in)
		waiting, f := session()
		f.waits = r
		if got := answerTo(t, waiting, transcript.SplitAtRandom(in, seed+i)...); !bytes.Equal(withoutLost(got),
			withoutLost(want)) {
			t.Fatalf("seed %d+%d: waiting %d times, %s", seed, i, f.waited, firstDifference(got, want))
		}
		if got, want := countedAsked(waiting), countedAsked(straight); got != want {
			t.Fatalf("seed %d+%d: counted %v, want %v", seed, i, got, want)
		}
	}
}
