package resp

import (
	"bytes"
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
		whole := grammar.Alike(t, func() transcript.Client {
			h := newFake()
			h.Budget, h.Most = int(seed>>8%16), int(seed>>16%4)
			s := newSession(h)
			if seed>>27%2 == 1 {
				s.config.Topology = func() protocol.Topology { return clusterOf(int(seed % 3)) }
			}
			if seed>>24%8 == 1 {
				s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool { return len(user) == len(password) })
			}
			return clientOf(s)
		}, in, seed)
		if limit := 3000*len(in) + 1024; len(whole) > limit {
			t.Fatalf("%d bytes answered with %d", len(in), len(whole))
		}
	})
}

func FuzzResume(f *testing.F) {
	transcript.FuzzResume(f, 2*most, []string{
		"r1 s - 0 0 0 0 0 0 = =", "r1 s -3 2 0 0 0 0 7 =ann =bob smith", "r1 k - 0 24 2 0 0 0 = =", "r1 k -i 0 6 3 0 0 0 = =",
		"r1 k -x 0 24 2 48 1 0 = =", "r1 s -m 0 0 0 22 1 0 = =", "r1 s -x 0 0 0 22 2 0 = =", "r1 s -mb 0 0 0 0 0 0 = =",
		"r1 s -osn 0 0 0 0 0 0 = =", "r1 s -t 0 0 0 0 0 0 = =", "r1 s -x 0 0 0 0 2 0 = =", "r1 s - 3 0 0 0 0 0 = =",
	}, []string{"*2\r\n$3\r\nGET\r\n$2\r\nid\r\n*1\r\n$4\r\nEXEC\r\n", "$5\r\naaaaa\r\n$6\r\nbbbbbb\r\n",
		"a b c\r\nget id\r\n", "", "$9\r\n", "*1\r\n$5\r\nRESET\r\n*1\r\n$5\r\nMULTI\r\n",
	}, func(auth transcript.Auth, state []byte, seed uint64) (transcript.Resumed, *protocol.Config, error) {
		c := newSession(newFake()).config
		c.Auth = auth
		s, err := Resume(c, seed%4 < 2, state)
		return s, c, err
	})
}
