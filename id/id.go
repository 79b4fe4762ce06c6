// Package id says what an id is: how a run of them is held, who issues it, and how each of them is
// written. Generators make runs, grammars write them, and neither knows the other.
//
// The guarantee: whatever the kind, no text is longer than MaxText, and each value has a number of
// 64 bits for protocols that want one. What is not promised: that values are unique, which is the
// duty of whoever makes them.
//
// Today there is one kind, a number of up to 64 bits written in decimal. A kind with another text
// adds its form to Run, and to Start and the slow ways of Text: nobody who calls them notices.
package id

import "strconv"

// A Run is N ids, at least 1: First, First+Stride, and so on. It is arithmetic, so that a batch
// costs no more than one id. It has room for one word more, the upper half of 128 bits: Go hands
// structs of up to four words on in registers. A Run of five made get id cost 62 ns, not 34, so the
// form of a kind that is not decimal goes into bits that Stride does not need.
type Run struct {
	First, Stride uint64
	N             int
}

// Append appends the text of the i-th id of the run, counted from 0. Text is quicker for those who
// write all of them.
func (r Run) Append(dst []byte, i int) []byte {
	return strconv.AppendUint(dst, r.First+uint64(i)*r.Stride, 10)
}

// A Source issues ids of one kind to one event loop. It is comparable: keys whose sources are equal
// may share a Mint.
type Source interface {
	// Mint issues between 1 and n ids; n is at least 1. now is the moment at which the caller's
	// turn began, Unix ms. bulk says that the client asks for many at once, which is refused before
	// single ids are. An error means that nothing was issued; its text is for the client. Mint may
	// be called from several goroutines at once, and does no I/O.
	Mint(now int64, n int, bulk bool) (Run, error)
}
