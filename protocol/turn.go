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

// Add counts something; Count passes it on. A negative n takes back what this turn has counted: a
// command that must wait is counted when it is answered.
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

// Issue gets one id for a key and counts it. After id.ErrWait nothing is counted. The text of any
// other error is for the client.
func (t *Turn) Issue(h Handler, key []byte) (id.Run, error) {
	t.singles++
	run, err := h.Source(key).Mint(t.Now, 1, t.singles > SingleGets)
	t.issued(1, err)
	return run, err
}

// Reserve gets n numbers, all or none, and counts them. Errors are those of Issue.
func (t *Turn) Reserve(from id.Reserver, n int) (id.Run, error) {
	run, err := from.Reserve(t.Now, n)
	t.issued(n, err)
	return run, err
}

// issued counts n ids, or the error that came instead of them.
func (t *Turn) issued(n int, err error) {
	switch {
	case err == nil:
		t.Add(IDs, n)
	case err != id.ErrWait:
		t.Add(Refused, 1)
	}
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
