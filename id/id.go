// Package id defines what an id is: how a run of ids is stored, who issues it, and how each id is
// written. Generators make runs, grammars write them, and neither imports the other.
//
// The guarantee: for every kind of id, no text is longer than MaxText, and each value has a 64-bit
// number for protocols that need one (0 if the text is not a number). Not promised: that values are
// unique, which is the duty of what makes them.
package id

import "slices"

// A Run is N ids, at least 1. Of numbers these are First, First+Stride, and so on, so a batch costs
// no more than one id; Stride must be less than 2^63. A run of another form is one id, the 128-bit
// number High<<64 | First; TextRun makes it.
//
// Go passes structs of up to four words in registers. With five words, get id took 62 ns instead of
// 34. So the form has no field: it is kept in Stride, which has its top bit set for all but Decimal.
type Run struct {
	First, Stride uint64
	N             int
	High          uint64
}

const notDecimal = 1 << 63

// TextRun makes a run of one id that is not a number. Of an ObjectID's 96 bits the upper 32 are in
// high.
func TextRun(f Form, high, low uint64) Run {
	return Run{First: low, Stride: notDecimal | uint64(f), N: 1, High: high}
}

// Form returns how the run's ids are written.
func (r Run) Form() Form {
	if r.Stride < notDecimal {
		return Decimal
	}
	return Form(r.Stride)
}

// Append appends the text of the run's i-th id, counted from 0. To write all ids, Text is faster.
func (r Run) Append(dst []byte, i int) []byte {
	if r.Stride < notDecimal {
		r.First += uint64(i) * r.Stride
	}
	var t Text
	t.Start(r)
	return t.Append(slices.Grow(dst, Room))
}

// Fill writes numbers into ids, which has room for N: four at a time, as each else waits for the one before.
func (r Run) Fill(ids []uint64) {
	stride := r.Stride
	v, v1, v2, v3 := r.First, r.First+stride, r.First+2*stride, r.First+3*stride
	for ids = ids[:r.N]; len(ids) >= 4; ids = ids[4:] {
		ids[0], ids[1], ids[2], ids[3] = v, v1, v2, v3
		v, v1, v2, v3 = v+4*stride, v1+4*stride, v2+4*stride, v3+4*stride
	}
	for i := range ids {
		ids[i] = v
		v += stride
	}
}
