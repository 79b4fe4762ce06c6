// Package order checks what clients saw of sequences: that no value was issued twice, and that values of
// strict order rise.
//
// Strict order means: if the answer to A arrived before B was asked, on whatever connections of whatever
// hosts, all values of A are smaller than those of B. Requests that overlap in time may have any order.
package order

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// A Request is one that was answered with values. Its times are of one clock, in any unit.
type Request struct {
	Name   string // of the sequence
	Begin  int64  // before the client asked
	End    int64  // after it had the answer
	First  uint64
	Stride uint64
	N      int // values: First, First + Stride ...
	Where  string
}

func (r Request) last() uint64 { return r.First + uint64(r.N-1)*r.Stride }

func (r Request) String() string {
	return fmt.Sprintf("%s %d..%d, asked at %d, answered at %d, %s", r.Name, r.First, r.last(), r.Begin, r.End, r.Where)
}

// Twice returns an error that names a value which was issued twice, if there is one.
func Twice(requests []Request) error {
	seen := map[string]*unique.Set{}
	for _, r := range requests {
		s := seen[r.Name]
		if s == nil {
			s = &unique.Set{}
			seen[r.Name] = s
		}
		if s.AddRun(r.First, r.Stride, r.N) > 0 {
			v, _ := s.Duplicate()
			return fmt.Errorf("%d was issued twice: %s", v, holders(requests, r.Name, v))
		}
	}
	return nil
}

func holders(requests []Request, name string, v uint64) (text string) {
	for _, r := range requests {
		if r.Name == name && v >= r.First && v <= r.last() && (v == r.First || (v-r.First)%r.Stride == 0) {
			text += "[" + r.String() + "]"
		}
	}
	return text
}

// An Inversion is two requests of one sequence: A was answered before B was asked, and yet not all its
// values are smaller.
type Inversion struct{ A, B Request }

func (i Inversion) Error() string { return fmt.Sprintf("inverted: [%s] and then [%s]", i.A, i.B) }

// Inverted returns an Inversion, if there is one. It sorts requests by Begin.
func Inverted(requests []Request) error {
	ended := slices.Clone(requests)
	slices.SortStableFunc(ended, func(a, b Request) int { return cmp.Compare(a.End, b.End) })
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.Begin, b.Begin) })
	largest := map[string]Request{} // of those that ended before the one that begins
	for _, b := range requests {
		for len(ended) > 0 && ended[0].End < b.Begin {
			if a := ended[0]; largest[a.Name].N == 0 || a.last() > largest[a.Name].last() {
				largest[a.Name] = a
			}
			ended = ended[1:]
		}
		if a, ok := largest[b.Name]; ok && a.last() >= b.First {
			return Inversion{a, b}
		}
	}
	return nil
}
