package memcache

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

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
		grammar.Alike(t, func() transcript.Client {
			f := newFake()
			f.Budget, f.Most = budget, most
			return clientOf(newSession(f))
		}, in, seed+i)
	}
}
