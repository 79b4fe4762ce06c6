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
	for _, file := range transcript.Files(f) {
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
		for i, pieces := range [][][]byte{transcript.InBytes(in), transcript.SplitAtRandom(in, seed),
			transcript.SplitAtRandom(in, seed)} {
			if i == 0 && len(in) > 2500 { // quadratic: every byte brings the unconsumed bytes again
				continue
			}
			if got := answerTo(t, session(i == 2), pieces...); !bytes.Equal(got, whole) {
				t.Fatalf("seed %d, %d: %s", seed, i, transcript.Difference(got, whole))
			}
			if i == 0 {
				continue
			}
			if got := transcript.Answer(t, &mover{t, session(i == 2)}, most, pieces...); !bytes.Equal(got, whole) {
				t.Fatalf("seed %d, %d, moved: %s", seed, i, transcript.Difference(got, whole))
			}
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
		next, err := Resume(m.s.config, true, state)
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
	for _, state := range []string{
		"s - 0 0 0 0 0 0 = =", "s -3 2 0 0 0 0 7 =ann =bob smith", "k - 0 24 2 0 0 0 = =", "k -i 0 6 3 0 0 0 = =",
		"k -x 0 24 2 48 1 0 = =", "s -m 0 0 0 22 1 0 = =",
		"s -x 0 0 0 22 2 0 = =", "s -mb 0 0 0 0 0 0 = =", "s -osn 0 0 0 0 0 0 = =", "s -t 0 0 0 0 0 0 = =",
		"s -x 0 0 0 0 2 0 = =", "s - 3 0 0 0 0 0 = =",
	} {
		for _, in := range []string{"*2\r\n$3\r\nGET\r\n$2\r\nid\r\n*1\r\n$4\r\nEXEC\r\n", "$5\r\naaaaa\r\n$6\r\nbbbbbb\r\n",
			"a b c\r\nget id\r\n", "", "$9\r\n", "*1\r\n$5\r\nRESET\r\n*1\r\n$5\r\nMULTI\r\n"} {
			f.Add("r1 "+state, []byte(in), uint64(len(in)))
		}
	}
	f.Fuzz(func(t *testing.T, state string, in []byte, seed uint64) {
		c := newSession(newFake()).config
		if seed%2 == 1 {
			c.Auth = func(user, password []byte) (*protocol.Config, error) { return nil, nil } // nobody may log in
		}
		s, err := Resume(c, seed%4 < 2, []byte(state))
		if err != nil {
			return
		}
		in = in[:min(len(in), 5000)]
		let := s.LoggedIn()
		transcript.Answer(t, s, 2*most, transcript.SplitAtRandom(in, seed)...)
		if n := counted(s); c.Auth != nil && !let && n[protocol.IDs] > 0 {
			t.Fatalf("%q issued %d ids to somebody who has not logged in", state, n[protocol.IDs])
		}
	})
}
