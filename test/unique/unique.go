// Package unique finds duplicates among very many ids. The simulation, the tests of the real daemon
// and soak runs rely on it, so it is simple, and each of them plants a duplicate to see that it is
// found.
//
// The guarantee: an id that is added again is always noticed: every id is kept exactly. Memory may
// run out: consecutive ids need half a byte each, scattered ids about 30.
package unique

import "fmt"

// A Set remembers ids. The zero Set is empty and ready. One goroutine at a time may use it.
type Set struct {
	// Bit i of words[w] is id w*64 + i. A word for a key keeps sparse ids small, and dense ones at
	// one look-up for 64.
	words      map[uint64]uint64
	len        uint64
	duplicates uint64
	first      uint64             // the first duplicate
	samples    [maxSamples]uint64 // ids for Plant: the 1st, 2nd, 4th, 8th ... that was added
	sampled    int
}

const (
	wordBits   = 6
	wordMask   = 1<<wordBits - 1
	maxSamples = 64
)

// Add adds an id. It is false when the id was there already.
func (s *Set) Add(id uint64) bool { return s.AddRun(id, 1, 1) == 0 }

// AddRun adds n ids: first, first+stride, ... It returns how many of them were there already; a
// stride of 0 makes n−1 of them so.
func (s *Set) AddRun(first, stride uint64, n int) (duplicates int) {
	if s.words == nil {
		s.words = make(map[uint64]uint64)
	}
	for id := first; n > 0; {
		key := id >> wordBits
		word := s.words[key]
		for ; n > 0 && id>>wordBits == key; n, id = n-1, id+stride {
			bit := uint64(1) << (id & wordMask)
			if word&bit != 0 {
				s.repeated(id)
				duplicates++
				continue
			}
			word |= bit
			s.added(id)
		}
		s.words[key] = word
	}
	return duplicates
}

func (s *Set) added(id uint64) {
	if s.len++; s.len&(s.len-1) == 0 && s.sampled < maxSamples {
		s.samples[s.sampled] = id
		s.sampled++
	}
}

func (s *Set) repeated(id uint64) {
	if s.duplicates++; s.duplicates == 1 {
		s.first = id
	}
}

// Len is the number of different ids.
func (s *Set) Len() uint64 { return s.len }

// Duplicates is how many times an id was added that was there already.
func (s *Set) Duplicates() uint64 { return s.duplicates }

// Duplicate is the first id that was added twice, if any was.
func (s *Set) Duplicate() (id uint64, found bool) { return s.first, s.duplicates > 0 }

// Plant adds some of the ids once more, early and late ones, and is an error when one of them goes
// unnoticed, or when there are none. It leaves the Set as it was, so that a run can end with it.
func (s *Set) Plant() error {
	before := *s
	defer func() {
		s.len, s.duplicates, s.first, s.sampled = before.len, before.duplicates, before.first, before.sampled
	}()
	if s.sampled == 0 {
		return fmt.Errorf("unique: no ids, so no duplicate to plant")
	}
	for _, id := range before.samples[:before.sampled] {
		if s.Add(id) {
			return fmt.Errorf("unique: id %d was added a second time and not noticed", id)
		}
	}
	return nil
}

// String is the verdict: "0 duplicates of N ids".
func (s *Set) String() string {
	of := fmt.Sprintf("%d duplicates of %d ids", s.duplicates, s.len+s.duplicates)
	if s.duplicates > 0 {
		of += fmt.Sprintf(", the first %d", s.first)
	}
	return of
}
