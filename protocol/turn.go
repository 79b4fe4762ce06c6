package protocol

import (
	"math/bits"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A Turn is one Feed of a session, in any grammar: the reply so far, and what to count.
type Turn struct {
	Now     int64  // current time, Unix ms
	Out     []byte // the reply so far
	n       [NumCounters]uint32
	touched uint32 // bit i: n[i] is not 0
	singles int    // number of ids requested one at a time
}

// Add counts something; Count passes it on.
func (t *Turn) Add(c Counter, n int) {
	t.n[c] += uint32(n)
	t.touched |= 1 << c
}

// Count adds the turn's counts to to. So a pipeline of commands costs a handful of atomic
// additions, not one per command.
func (t *Turn) Count(to *Counters) {
	for m := t.touched; m != 0; m &= m - 1 {
		c := bits.TrailingZeros32(m)
		to.n[c].Add(uint64(t.n[c]))
	}
}

// Say appends s to the reply.
func (t *Turn) Say(s string) { t.Out = append(t.Out, s...) }

// Issue gets one id for a key and counts it. The error's text is for the client.
func (t *Turn) Issue(h Handler, key []byte) (id.Run, error) {
	t.singles++
	run, err := h.Source(key).Mint(t.Now, 1, t.singles > SingleGets)
	if err != nil {
		t.Add(Refused, 1)
	} else {
		t.Add(IDs, 1)
	}
	return run, err
}

// AppendLine appends at most limit bytes of s, without any byte that could end the line.
func AppendLine(dst []byte, s string, limit int) []byte {
	for _, c := range []byte(s[:min(len(s), limit)]) {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}
