package resp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// FuzzRESP tests the guarantee: an answer does not depend on how the input was cut, nor on when its
// sources wait. Also, for any input, nothing panics, every Feed makes progress, and neither the reply
// nor the unconsumed input grows without limit. The transcripts are the seeds.
func FuzzRESP(f *testing.F) {
	for _, file := range transcripts(f) {
		for i, b := range file.Talks {
			if in := bytes.Join(b.Sent, nil); len(in) < 2500 {
				f.Add(in, uint64(i))
				f.Add(in, uint64(i)|1<<27)
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		session := func(waits bool) *Session {
			h := newFake()
			h.budget, h.most = int(seed>>8%16), int(seed>>16%4)
			if waits {
				h.waits = rand.New(rand.NewPCG(seed, 1))
			}
			s := newSession(h)
			if seed>>27%2 == 1 {
				s.config.Topology = func() protocol.Topology { return clusterOf(int(seed % 3)) }
			}
			if seed>>24%8 == 1 {
				s.config.Auth = s.logins(func(user, password []byte) bool { return len(user) == len(password) })
			}
			return s
		}
		whole := answerTo(t, session(false), in)
		if limit := 3000*len(in) + 1024; len(whole) > limit {
			t.Fatalf("%d bytes answered with %d", len(in), len(whole))
		}
		for i, pieces := range [][][]byte{transcript.InBytes(in), transcript.SplitAtRandom(in, seed), transcript.SplitAtRandom(in, seed)} {
			if i == 0 && len(in) > 2500 { // quadratic: every byte brings the unconsumed bytes again
				continue
			}
			if got := answerTo(t, session(i == 2), pieces...); !bytes.Equal(got, whole) {
				t.Fatalf("seed %d, %d: %s", seed, i, transcript.Difference(got, whole))
			}
		}
	})
}
