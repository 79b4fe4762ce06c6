package memcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// The longest reply, 10,000 runs of one id: it comes in pieces, each below the limit of a Feed, and is
// the same however the input is cut, and wherever the source makes it wait.
func TestIDsInPieces(t *testing.T) {
	var want strings.Builder
	for i := range uint64(maxIDs) {
		fmt.Fprintf(&want, "IDS %d 26 1\r\n", 18000000000000000000+26*i)
	}
	want.WriteString("END\r\nVALUE id 0 3\r\n100\r\nEND\r\n")
	in := []byte("ids 10000 \t tickets\r\nget id\r\n")
	in = bytes.Replace(in, []byte("\t"), bytes.Repeat([]byte(" "), 3000), 1)
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(4) {
		f := newFake()
		f.most = 1
		if i >= 2 {
			f.waits = rand.New(rand.NewPCG(seed, i))
		}
		s := newSession(f)
		pieces := [][]byte{in}
		if i%2 == 1 {
			pieces = transcript.SplitAtRandom(in, seed+i)
		}
		if got := answerTo(t, s, pieces...); string(got) != want.String() {
			t.Errorf("seed %d+%d: %s", seed, i, transcript.Difference(got, []byte(want.String())))
		}
		if got, want := tell(s), "1 get 1 ids 10001 id"; got != want {
			t.Errorf("seed %d+%d: counted %q, want %q", seed, i, got, want)
		}
	}
}

// What a line that must wait has consumed and answered, and what it counts in all.
func TestIDsWait(t *testing.T) {
	for _, c := range []struct{ script, in, first, rest, then, counted string }{
		{"w", "ids 1\r\n", "", "ids 1\r\n", "IDS 100 1 1\r\nEND\r\n", "1 ids 1 id"},
		{"w", "ids 3 a\r\n", "", "ids 3 a\r\n", "IDS 100 1 2\r\nIDS 102 1 1\r\nEND\r\n", "1 ids 3 id"},
		{"iw", "ids 3\r\n", "IDS 100 1 2\r\n", "3\r\n", "IDS 102 1 1\r\nEND\r\n", "1 ids 3 id"},
		{"iiw", "ids 1\r\nids 5  a \n", "IDS 100 1 1\r\nEND\r\nIDS 101 1 2\r\n", "5  a \n",
			"IDS 103 1 2\r\nIDS 105 1 1\r\nEND\r\n", "2 ids 6 id"},
		{"iw", "ids 9 a\r\n", "IDS 100 1 2\r\n", "9 a\r\n",
			"IDS 102 1 2\r\nIDS 104 1 2\r\nIDS 106 1 1\r\nSERVER_ERROR no id  for now\r\n", "1 ids 7 id 2 refused"},
		{"w", "ids 9 d:x\r\nids 2\r\n", "CLIENT_ERROR no such generator: d:x\r\n", "ids 2\r\n", "IDS 100 1 2\r\nEND\r\n",
			"2 ids 2 id 9 refused"},
	} {
		f := newFake()
		f.most, f.budget = 2, 7
		s := newSession(f)
		s.config.Handler = &patient{&f.sources[0], c.script}
		n, out, err := s.Feed(1, []byte(c.in), nil)
		if err != id.ErrWait || string(out) != c.first || c.in[n:] != c.rest {
			t.Errorf("%q: %v, said %q, left %q", c.in, err, out, c.in[n:])
		}
		rest := []byte(c.in[n:])
		n, out, err = s.Feed(1, rest, nil)
		if err != nil || string(out) != c.then || n != len(rest) {
			t.Errorf("%q: then %v, said %q, left %q", c.in, err, out, rest[n:])
		}
		if got := tell(s); got != c.counted || s.state != line {
			t.Errorf("%q: counted %q, want %q; %+v", c.in, got, c.counted, s)
		}
	}
}

// After many ids, or statistics, other connections have their turn, although the reply is short.
func TestWhatTakesLongEndsTheTurn(t *testing.T) {
	binaryOf := func(opcode byte) string { return "\x80" + string(rune(opcode)) + strings.Repeat("\x00", 22) }
	noop := binaryOf(0x0a)
	for _, c := range []struct{ in, rest string }{
		{"ids 10000\r\nget id\r\n", "get id\r\n"},
		{"ids 9999\r\nids 1\r\nids 2\r\nids 3\r\n", "ids 2\r\nids 3\r\n"},
		{"ids 4000\r\nids 4000\r\nids 4000 orders\r\nids 4000\r\nget id\r\n", "ids 4000\r\nget id\r\n"},
		{"stats settings\r\nversion\r\n", "version\r\n"},
		{binaryOf(0x10) + noop, noop},
	} {
		s := newSession(newFake())
		n, out, err := s.Feed(1, []byte(c.in), nil)
		if err != protocol.ErrEnough || c.in[n:] != c.rest || len(out) == 0 {
			t.Errorf("%q: %v, said %q, left %q", c.in, err, out, c.in[n:])
		}
		if n, out, err = s.Feed(1, []byte(c.rest), nil); n != len(c.rest) || err != nil {
			t.Errorf("%q: then %v, said %q", c.rest, err, out)
		}
	}
}

// Several ids are bulk. A line that asks for one id is not, unless it is the fifth of one Feed.
func TestIDsAreBulk(t *testing.T) {
	f := newFake()
	f.logged, f.most = true, 2
	answerTo(t, newSession(f), []byte("ids 1\r\nids 3\r\nids 1\r\nget id\r\nids 1\r\nids 1\r\nids 1 orders\r\n"))
	if got, want := fmt.Sprint(f.log), "[1*0 3*0 bulk 1*0 bulk 1*0 1*0 1*0 1*0 bulk 1*4 bulk]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Wrong lines issue nothing and count once each as malformed.
func TestWrongIDsIssueNothing(t *testing.T) {
	f := newFake()
	f.logged = true
	s := newSession(f)
	in := "ids\r\nids 0\r\nids 10001\r\nids -1\r\nids 1x\r\nids 5 " + strings.Repeat("k", 251) + "\r\nids 5 " +
		strings.Repeat("k", 2048) + "\r\nids 1 a b\r\nids 5 uuid\r\nids 1 ulid\r\n"
	answerTo(t, s, []byte(in))
	if n := counted(s); len(f.log) > 0 || n[protocol.Malformed] != 10 || n[protocol.CmdIDs] != 10 ||
		n[protocol.IDs] != 0 || n[protocol.Refused] != 0 {
		t.Errorf("%v, counted %v", f.log, n)
	}
}
