package memcache

import (
	"bytes"
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
		whole := grammar.Alike(t, func() transcript.Client {
			h := newFake()
			h.Budget, h.Most = int(seed>>8%16), int(seed>>16%4)
			s := newSession(h)
			if seed>>24%8 == 1 {
				s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool { return len(user) == len(password) })
			}
			return clientOf(s)
		}, in, seed)
		limit := 64*len(in) + 1024 + bytes.Count(bytes.ToLower(in), []byte("ids"))*maxIDs*runRoom
		if len(whole) > limit {
			t.Fatalf("%d bytes answered with %d", len(in), len(whole))
		}
	})
}

func FuzzResume(f *testing.F) {
	transcript.FuzzResume(f, most, []string{"m1 l - - 0 0", "m1 s - - 0 0", "m1 k - -c 0 10", "m1 k - - 0 3",
		"m1 i - - 2 1000", "m1 b n - 1 7", "m1 b - -b 0 7", "m1 h - - 2 0", "m1 c - - 1 7", "m1 f - -bts 0 0",
		"m1 f - -b 0 0", "m1 l - -t 0 0", "m1 k - - 0 0", "m1 b - - 0 0", "m1 _ - - 0 0", "m1 l - - 3 0",
	}, []string{"get a b\r\nget id\r\n", "a b c d\r\nget id\r\n", "  \r\n", "ids 1000 id\r\n", "ann  x\r\nget id\r\n",
		"\x80\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00id",
	}, func(auth transcript.Auth, state []byte, _ uint64) (transcript.Resumed, *protocol.Config, error) {
		c := newSession(newFake()).config
		c.Auth = auth
		s, err := Resume(c, state)
		return s, c, err
	})
}
