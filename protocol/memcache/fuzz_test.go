package memcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// FuzzText, FuzzMeta and FuzzBinary test the protocol's guarantee: an answer does not depend on how
// the input was cut, and where ids had to be waited for. Also, for any input, nothing panics, every
// Feed makes progress, and neither the reply nor the unconsumed input grows without limit. The
// transcripts are the seeds.

func FuzzText(f *testing.F) {
	fuzzGrammar(f, "*", func(in []byte) []byte { return in })
}

func FuzzMeta(f *testing.F) {
	fuzzGrammar(f, "meta", func(in []byte) []byte {
		return append([]byte("mg k v\nm"), in...)
	})
}

func FuzzBinary(f *testing.F) {
	fuzzGrammar(f, "binary*", func(in []byte) []byte {
		return append(
			[]byte("\x80\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), in...)
	})
}

// fuzzGrammar feeds the input to two sessions: whole to one, in pieces to the other.
func fuzzGrammar(f *testing.F, seeds string, input func([]byte) []byte) {
	paths, err := filepath.Glob("testdata/" + seeds + ".txt")
	if err != nil || len(paths) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, path := range paths {
		for i, b := range transcript.Read(f, path).Talks {
			if in := bytes.Join(b.Sent, nil); len(in) < 2500 {
				f.Add(in, uint64(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		in = input(in)
		h := newFake()
		session := func() *Session {
			h = newFake()
			h.budget, h.most = int(seed>>8%16), int(seed>>16%4)
			s := newSession(h)
			if seed>>24%8 == 1 {
				s.config.Auth = s.logins(func(user, password []byte) bool { return len(user) == len(password) })
			}
			return s
		}
		straight := session()
		whole := answerTo(t, straight, in)
		limit := 64*len(in) + 1024 + bytes.Count(bytes.ToLower(in), []byte("ids"))*maxIDs*runRoom
		if len(whole) > limit {
			t.Fatalf("%d bytes answered with %d", len(in), len(whole))
		}
		for i, pieces := range [][][]byte{transcript.InBytes(in), transcript.SplitAtRandom(in, seed)} {
			if i == 0 && len(in) > 2500 { // quadratic: every byte brings the unconsumed bytes again
				continue
			}
			if got := answerTo(t, session(), pieces...); !bytes.Equal(got, whole) {
				t.Fatalf("seed %d: %s\nwhole %.1000q\nsplit %.1000q", seed, firstDifference(got, whole), whole, got)
			}
		}
		moved := &mover{t, session()}
		if got := transcript.Answer(t, moved, most, transcript.SplitAtRandom(in, seed)...); !bytes.Equal(got, whole) {
			t.Fatalf("seed %d: %s\nwhole %.1000q\nmoved %.1000q", seed, firstDifference(got, whole), whole, got)
		}
		s := session()
		h.waits = rand.New(rand.NewPCG(seed, 1))
		if got := answerTo(t, s, transcript.SplitAtRandom(in, seed)...); !bytes.Equal(withoutLost(got), withoutLost(whole)) {
			t.Fatalf("seed %d, waiting: %s\nwhole %.1000q\nwaiting %.1000q", seed, firstDifference(got, whole), whole, got)
		}
		if got, want := countedAsked(s), countedAsked(straight); got != want {
			t.Fatalf("seed %d: waiting counted %v, want %v", seed, got, want)
		}
	})
}

// A mover freezes its session before each Feed, and goes on with another one that is made of it.
type mover struct {
	t *testing.T
	s *Session
}

func (m *mover) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	if state, ok := m.s.Freeze(); ok {
		next, err := Resume(m.s.config, state)
		if err != nil {
			m.t.Fatalf("frozen as %q: %v", state, err)
		}
		m.s = next
	}
	return m.s.Feed(now, in, out)
}

// FuzzResume resumes from anything, with any input behind it. No state may let a client in who must log
// in first, and there must be a way out of each: nothing panics, and every Feed makes progress.
func FuzzResume(f *testing.F) {
	for _, state := range []string{"l - - 0 0", "s - - 0 0", "k - -c 0 10", "k - - 0 3", "i - - 2 1000", "b n - 1 7",
		"b - -b 0 7", "h - - 2 0", "c - - 1 7", "f - -bts 0 0",
		"f - -b 0 0", "l - -t 0 0", "k - - 0 0", "b - - 0 0", "_ - - 0 0", "l - - 3 0"} {
		for _, in := range []string{"get a b\r\nget id\r\n", "a b c d\r\nget id\r\n", "  \r\n", "ids 1000 id\r\n",
			"ann  x\r\nget id\r\n",
			"\x80\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00id"} {
			f.Add("m1 "+state, []byte(in), uint64(len(in)))
		}
	}
	f.Fuzz(func(t *testing.T, state string, in []byte, seed uint64) {
		h := newFake()
		c := newSession(h).config
		if seed%2 == 1 {
			c.Auth = func(user, password []byte) (*protocol.Config, error) { return nil, nil } // nobody may log in
		}
		s, err := Resume(c, []byte(state))
		if err != nil {
			return
		}
		in = in[:min(len(in), 5000)]
		let := s.LoggedIn()
		answerTo(t, s, transcript.SplitAtRandom(in, seed)...)
		if n := counted(s); c.Auth != nil && !let && n[protocol.IDs] > 0 {
			t.Fatalf("%q issued %d ids to somebody who has not logged in", state, n[protocol.IDs])
		}
	})
}

func firstDifference(a, b []byte) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("different from byte %d on", i)
}
