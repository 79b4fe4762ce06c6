package transcript

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A Session is a grammar's.
type Session interface {
	Feed(now int64, in, out []byte) (n int, reply []byte, err error)
}

// A Conversation feeds a session as an engine does: it passes unconsumed bytes again, with more
// behind them, and the same bytes after id.ErrWait or protocol.ErrEnough. It fails the test if the
// session changes what it must not, does not get on, or lets the reply or the input grow without
// limit.
type Conversation struct {
	T       testing.TB
	Session Session
	Most    int // bytes that the session may leave unconsumed
	Reply   []byte
	Closed  bool

	pending []byte
}

// copied is the most bytes of which a session gets a copy of its own. To copy and compare them at every piece takes
// most of the time of a long conversation. A session that keeps or changes its input does so in short ones too.
const copied = 1 << 10

// Now is the time that the session is told, Unix ms.
const Now = 1_700_000_000_123

// Feed sends more bytes.
func (c *Conversation) Feed(more []byte) {
	c.T.Helper()
	c.pending = append(c.pending, more...)
	const before = "what another session said"
	for !c.Closed && len(c.pending) > 0 {
		in := c.pending
		if len(in) <= copied {
			in = bytes.Clone(in)
		}
		n, reply, err := c.Session.Feed(Now, in, append(make([]byte, 0, len(before)+len(c.pending)%64), before...))
		if n < 0 || n > len(c.pending) {
			c.T.Fatalf("%d of %d bytes consumed", n, len(c.pending))
		}
		if !bytes.Equal(in, c.pending) || !bytes.HasPrefix(reply, []byte(before)) {
			c.T.Fatal("the input or an earlier reply was changed")
		}
		if len(in) <= copied {
			clear(in) // the session must not keep it
		}
		if reply = reply[len(before):]; len(reply) >= 2*protocol.ReplyChunk {
			c.T.Fatalf("one reply of %d bytes", len(reply))
		}
		c.Reply = append(c.Reply, reply...)
		c.pending = c.pending[n:]
		if err != nil && err != protocol.ErrClose && err != id.ErrWait && err != protocol.ErrEnough {
			c.T.Fatalf("error %v", err)
		}
		c.Closed = err == protocol.ErrClose
		if n == 0 && len(reply) == 0 && err == nil {
			break
		}
	}
	if !c.Closed && len(c.pending) > c.Most {
		c.T.Fatalf("%d bytes left unconsumed", len(c.pending))
	}
}

// Answer returns what a session answers to input in the given pieces, with a mark where it closes.
func Answer(t testing.TB, s Session, most int, pieces ...[]byte) []byte {
	t.Helper()
	c := Conversation{T: t, Session: s, Most: most}
	for _, p := range pieces {
		c.Feed(p)
	}
	if c.Closed {
		return append(c.Reply, Closed...)
	}
	return c.Reply
}

// InBytes cuts input into single bytes.
func InBytes(in []byte) (pieces [][]byte) {
	for i := range in {
		pieces = append(pieces, in[i:i+1])
	}
	return pieces
}

// SplitAtRandom cuts input anywhere.
func SplitAtRandom(in []byte, seed uint64) (pieces [][]byte) {
	r, longest := rand.New(rand.NewPCG(seed, 0)), 80+len(in)/100
	for len(in) > 0 {
		n := min(1+r.IntN(1+r.IntN(longest)), len(in))
		pieces, in = append(pieces, in[:n]), in[n:]
	}
	return pieces
}

// Difference says where two replies part.
func Difference(a, b []byte) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	end := func(s []byte) []byte { return s[max(0, min(len(s), i)-40):min(len(s), i+80)] }
	return fmt.Sprintf("different from byte %d on: %q, want %q", i, end(a), end(b))
}
