// Package id defines what an id is: how a run of ids is stored, who issues it, and how each id is
// written. Generators make runs, grammars write them, and neither imports the other.
//
// The guarantee: for every kind of id, no text is longer than MaxText, and each value has a 64-bit
// number for protocols that need one. Not promised: that values are unique, which is the duty of
// whoever makes them.
//
// Today there is one kind, a number of up to 64 bits written in decimal. A kind with another text
// must extend Run, and Start and the slow paths of Text; callers need not change.
package id

import "strconv"

// A Run is N ids, at least 1: First, First+Stride, and so on. A batch therefore costs no more than one
// id. One more word would fit, for the upper half of 128 bits, because Go passes structs of up to four
// words in registers. With five words, get id took 62 ns instead of 34. So a kind that is not decimal
// must be marked in bits that Stride does not need.
type Run struct {
	First, Stride uint64
	N             int
}

// Append appends the text of the run's i-th id, counted from 0. To write all ids, Text is faster.
func (r Run) Append(dst []byte, i int) []byte {
	return strconv.AppendUint(dst, r.First+uint64(i)*r.Stride, 10)
}
