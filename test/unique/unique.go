// Package unique finds duplicates among very many ids. The simulation, the tests of the real daemon
// and soak runs rely on it, so it is simple, and each of them plants a duplicate to see that it is
// found. So does the benchmark.
//
// The guarantee: an id that is added again is always noticed: every id is kept exactly. Memory may
// run out: consecutive ids need half a byte each, scattered ids about 32.
package unique

import (
	"fmt"
	"math/bits"
)

// A Set remembers ids. The zero Set is empty and ready. One goroutine at a time may use it.
type Set struct {
	// Ids that were issued together are close together: a word keeps 64 neighbours, and is found by hashing.
	pages      []uint64 // id>>wordBits + 1; 0 = the slot is free
	words      []uint64 // bit i is the i-th id of that page
	used       int
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
	for id := first; n > 0; {
		key := id >> wordBits
		slot := s.slot(key + 1)
		word := s.words[slot]
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
		s.words[slot] = word
	}
	return duplicates
}

// AddAll adds the ids of another Set.
func (s *Set) AddAll(of *Set) {
	for i, page := range of.pages {
		for word := of.words[i]; word != 0; word &= word - 1 {
			s.Add((page-1)<<wordBits + uint64(bits.TrailingZeros64(word)))
		}
	}
}

// slot finds a page's slot, and takes a free one for a page that has none.
func (s *Set) slot(page uint64) int {
	if 2*s.used >= len(s.pages) {
		s.grow()
	}
	i := s.find(page)
	if s.pages[i] == 0 {
		s.pages[i] = page
		s.used++
	}
	return i
}

func (s *Set) find(page uint64) int {
	mask := len(s.pages) - 1
	i := int(page * 0x9E3779B97F4A7C15 >> bits.LeadingZeros64(uint64(mask)))
	for s.pages[i] != page && s.pages[i] != 0 {
		i = (i + 1) & mask
	}
	return i
}

func (s *Set) grow() {
	const first = 1 << 12
	old := *s
	size := max(first, 2*len(old.pages))
	s.pages, s.words = make([]uint64, size), make([]uint64, size)
	for i, page := range old.pages {
		if page != 0 {
			at := s.find(page)
			s.pages[at], s.words[at] = page, old.words[i]
		}
	}
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
