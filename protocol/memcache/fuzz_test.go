package memcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

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
		return append([]byte("\x80\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), in...)
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
		limit := 64*len(in) + 1024 + bytes.Count(bytes.ToLower(in), []byte("ids"))*MaxIDs*runRoom
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

func firstDifference(a, b []byte) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("different from byte %d on", i)
}
