package memcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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
		f.Most = 1
		if i >= 2 {
			f.Waits = rand.New(rand.NewPCG(seed, i))
		}
		s := newSession(f)
		pieces := [][]byte{in}
		if i%2 == 1 {
			pieces = transcript.SplitAtRandom(in, seed+i)
		}
		if got := answerTo(t, s, pieces...); string(got) != want.String() {
			t.Errorf("seed %d+%d: %s", seed, i, transcript.Difference(got, []byte(want.String())))
		}
		counts := protocol.Counts{protocol.CmdGet: 1, protocol.CmdIDs: 1, protocol.IDs: 10001}
		if got := counted(s); got != counts {
			t.Errorf("seed %d+%d: counted %v, want %v", seed, i, got, counts)
		}
	}
}
