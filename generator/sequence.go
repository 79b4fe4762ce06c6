package generator

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/id"
)

var (
	// ErrEmpty: the blocks at hand have no value left, or not as many in a row as Reserve needs.
	// Retry after Append.
	ErrEmpty = errors.New("generator: no value at hand")
	// ErrLate: a block does not lie above all that were appended before it. Drop it: a gap is
	// harmless, but values would not rise.
	ErrLate = errors.New("generator: block below one that came before")
)

// A Sequence issues the values of blocks that its caller has reserved for it, each value once and
// in rising order: if one Take has returned before another begins, its values are smaller.
//
// The blocks are a chain. Each has one word, the number of its values that are gone, and the word only
// grows, by one compare-and-swap per run. The current block is replaced only when all its values are
// gone for good. Where a new block continues the last one, that one grows instead, so that a run of
// values in a row may cross the border.
//
//	current           tail
//	┌────────┐ next  ┌──────────────┐
//	│████░░░░│──────▶│░░░░░░░░░░░░░░│      █ gone: issued, or passed over by Reserve or Raise
//	└────────┘       └───────┬──────┘
//	lo  taken end           mark           a Take that crosses the mark rings for the next block
//
// All methods may be called from any goroutine.
type Sequence struct {
	current atomic.Pointer[block] // never nil: the first block is empty
	step    uint64
	ring    func()

	_     [40]byte   // every Take reads the above, and only Append and its kin write the rest
	mu    sync.Mutex // held by whatever changes the chain
	tail  *block
	floor uint64 // of all Raises
	ended bool   // sealed

	passed atomic.Uint64 // values that are gone and were not issued
}

// A block counts its values from 0, so that the word needs its top bit for no value and Take needs no
// division.
type block struct {
	taken atomic.Uint64 // how many are gone; may exceed end after a Raise; the top bit means sealed
	_     [120]byte
	end   atomic.Uint64 // how many there are; grows only while next is nil
	mark  atomic.Uint64 // how many must be gone before Take rings
	lo    uint64        // the first value
	below uint64        // the last value of the block before, or 0
	prior uint64        // how many values the blocks before had
	next  atomic.Pointer[block]
}

// NewSequence makes a Sequence without a block. step is the distance between two values, at least 1.
// ring is called when half of the newest block is gone, and after Raise. It must return at once and
// must not call the Sequence; more calls than needed happen.
func NewSequence(step uint64, ring func()) *Sequence {
	s := &Sequence{step: step, ring: ring, tail: &block{}}
	s.current.Store(s.tail)
	return s
}

// Take issues between 1 and n values; n below 1 counts as 1. The errors are ErrEmpty and ErrSealed;
// they change nothing.
func (s *Sequence) Take(n int) (id.Run, error) {
	for {
		b := s.current.Load()
		taken := b.taken.Load()
		end := b.end.Load()
		if taken >= end {
			if err := s.advance(b); err != nil {
				return id.Run{}, err
			}
			continue
		}
		got := min(uint64(max(n, 1)), end-taken)
		if b.taken.CompareAndSwap(taken, taken+got) {
			s.crossed(b, taken, taken+got)
			return id.Run{First: b.lo + taken*s.step, Stride: s.step, N: int(got)}, nil
		}
	}
}

// crossed rings if the values from..to are on both sides of the mark. The mark is read after the swap,
// and Append reads the word after it set the mark, so one of them notices.
func (s *Sequence) crossed(b *block, from, to uint64) {
	if mark := b.mark.Load(); from < mark && to >= mark {
		s.ring()
	}
}

// advance moves past b, whose values seem to be gone.
func (s *Sequence) advance(b *block) error {
	next := b.next.Load()
	switch taken := b.taken.Load(); {
	case taken >= sealed:
		return ErrSealed
	case taken < b.end.Load(): // b grew, perhaps before next was linked: it must not be skipped
	case next == nil:
		return ErrEmpty
	default:
		s.current.CompareAndSwap(b, next)
	}
	return nil
}

// Reserve issues exactly n values in a row, or none; n is at least 1. If they are in a later block, it
// passes over all values before them, which are lost: otherwise a later Take would return smaller
// values. The errors are those of Take; they change nothing.
func (s *Sequence) Reserve(n int) (id.Run, error) {
	for {
		b := s.current.Load()
		taken := b.taken.Load()
		if taken >= sealed {
			return id.Run{}, ErrSealed
		}
		if taken+uint64(n) <= b.end.Load() {
			if b.taken.CompareAndSwap(taken, taken+uint64(n)) {
				s.crossed(b, taken, taken+uint64(n))
				return id.Run{First: b.lo + taken*s.step, Stride: s.step, N: n}, nil
			}
			continue
		}
		if !b.later(uint64(n)) {
			return id.Run{}, ErrEmpty
		}
		// There is a later block, so b's end, read from here on, is final.
		if end := b.end.Load(); taken >= end || s.pass(b, taken, end) {
			s.current.CompareAndSwap(b, b.next.Load())
		}
	}
}

// pass moves b's word past values that will not be issued. It reports false if another goroutine has moved
// the word. They count as passed before they are, so that Issued never counts them.
func (s *Sequence) pass(b *block, from, to uint64) bool {
	n := min(to, b.end.Load()) - min(from, b.end.Load())
	s.passed.Add(n)
	if b.taken.CompareAndSwap(from, to) {
		return true
	}
	s.passed.Add(-n)
	return false
}

// Has reports whether n values in a row are at hand, for a Reserve.
func (s *Sequence) Has(n uint64) bool {
	b := s.current.Load()
	return b.taken.Load()+n <= b.end.Load() || b.later(n)
}

// later reports whether a block after b has n values left.
func (b *block) later(n uint64) bool {
	for b = b.next.Load(); b != nil; b = b.next.Load() {
		if b.taken.Load()+n <= b.end.Load() {
			return true
		}
	}
	return false
}

// Append adds a block: the values lo, lo + step .. hi, which no other Sequence may have. The errors are
// ErrLate and ErrSealed; then the block is not used.
func (s *Sequence) Append(lo, hi uint64) error {
	if lo < 1 || hi < lo || hi >= sealed || (hi-lo)%s.step != 0 {
		return fmt.Errorf("generator: block %d..%d in steps of %d", lo, hi, s.step)
	}
	full, err := s.append(lo, hi)
	if err == nil && full {
		s.ring()
	}
	return err
}

// append reports whether the mark was crossed already.
func (s *Sequence) append(lo, hi uint64) (crossed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, n := s.tail, (hi-lo)/s.step+1
	end := t.end.Load()
	switch {
	case s.ended:
		return false, ErrSealed
	case lo <= s.last():
		return false, ErrLate
	case lo == t.lo+end*s.step:
		s.passed.Add(min(max(t.taken.Load()&^sealed, end), end+n) - end) // a Raise has gone further
		t.mark.Store(end + n - n/2)
		t.end.Store(end + n)
	default:
		t = &block{lo: lo, below: s.last(), prior: t.prior + end}
		t.mark.Store(n - n/2)
		t.end.Store(n)
		t.taken.Store(s.under(lo))
		s.passed.Add(min(s.under(lo), n))
		s.tail.next.Store(t)
		s.tail = t
	}
	return t.taken.Load() >= t.mark.Load(), nil
}

// last returns the last value of the tail. The caller holds mu.
func (s *Sequence) last() uint64 {
	end := s.tail.end.Load()
	if end == 0 {
		return 0
	}
	return s.tail.lo + (end-1)*s.step
}

// under returns how many values from lo on are below the floor. The caller holds mu.
func (s *Sequence) under(lo uint64) uint64 {
	if s.floor <= lo {
		return 0
	}
	return (s.floor-lo-1)/s.step + 1
}

// Raise makes sure that no Take or Reserve that begins after Raise has returned issues a value below
// atLeast, which is less than 1<<63. Values below are lost, also those of blocks still to come.
func (s *Sequence) Raise(atLeast uint64) {
	s.mu.Lock()
	s.floor = max(s.floor, atLeast)
	for b := s.current.Load(); b != nil; b = b.next.Load() {
		for under := s.under(b.lo); ; {
			taken := b.taken.Load()
			if taken >= under || s.pass(b, taken, under) {
				break
			}
		}
	}
	s.mu.Unlock()
	s.ring()
}

// Seal stops the Sequence for good: after Seal returns no value is issued, not even by a Take that is
// running. The values from next on that are left at the end of the chain, rest of them, were never
// issued, and nothing above them was.
func (s *Sequence) Seal() (next, rest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	var taken uint64
	for b := s.current.Load(); b != nil; b = b.next.Load() {
		taken = b.taken.Or(sealed) &^ sealed // one atomic step: no Take can come between
	}
	if end := s.tail.end.Load(); taken < end {
		return s.tail.lo + taken*s.step, end - taken
	}
	return 0, 0
}

// Left returns how many values are at hand.
func (s *Sequence) Left() uint64 {
	left := uint64(0)
	for b := s.current.Load(); b != nil; b = b.next.Load() {
		if taken, end := b.taken.Load()&^sealed, b.end.Load(); taken < end {
			left += end - taken
		}
	}
	return left
}

// Last returns the largest value that is gone, issued or not, or 0.
func (s *Sequence) Last() uint64 {
	b := s.current.Load()
	taken := min(b.taken.Load()&^sealed, b.end.Load())
	if taken == 0 {
		return b.below
	}
	return b.lo + (taken-1)*s.step
}

// Issued returns how many values were issued. While others pass over values it may be too small for a
// moment, and never too large.
func (s *Sequence) Issued() uint64 {
	b := s.current.Load()
	gone := b.prior
	for ; b != nil; b = b.next.Load() { // a Raise may have passed over later blocks too
		gone += min(b.taken.Load()&^sealed, b.end.Load())
	}
	return gone - min(s.passed.Load(), gone) // last: values count as passed before they are gone
}
