package generator

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

var (
	// ErrAhead: the next free id lies after the limit that the caller gave. Either ids are asked for faster than the layout
	// allows, or the clock stands behind the last id. Retry when the clock has moved; Position says how far that is.
	ErrAhead = errors.New("generator: next id lies ahead of the clock")
	// ErrWindow: the window is used up, or is not long enough to reach the present. Retry after Extend.
	ErrWindow = errors.New("generator: window does not reach")
	// ErrSealed: Seal was called. Never retry on this Snowflake.
	ErrSealed = errors.New("generator: sealed")
)

// A Run is N ids of one tick: First, First+Stride, ..., N of them. It is arithmetic, so that a batch costs no more than one id.
type Run struct {
	First, Stride uint64
	N             int
}

// A Snowflake issues the ids of one worker id inside one window of time that it was granted.
//
// All that it knows is one 64-bit word: the next free position, tick<<SequenceBits | sequence. It only ever grows, by one
// compare-and-swap per run, so no two Takes get the same position; nothing in it depends on the clock telling the truth.
//
//	first = max(next, now<<SequenceBits)     never below what was issued, at the present when that is free
//	tick(first) ≤ limit                      how far ahead of the clock the caller allows
//	tick(first) ≤ hi                         the window: other holders of this worker id start above it
//
// Take, Extend, Position and Seal may be called from any goroutine, Extend from one at a time.
type Snowflake struct {
	next   atomic.Uint64 // next free position; the top bit means sealed
	hiTick atomic.Int64  // last tick of the window

	layout  Layout
	seqBits uint8
	seqMask uint64
	worker  uint64 // already shifted into place
	random  bool
	lo, hi  int64 // the window in Unix ms; hi is Extend's, hiTick follows it

	_ [64]byte // two lanes never share a cache line
}

const sealed = 1 << 63

// Options are a Snowflake's settings.
type Options struct {
	Layout      Layout
	Worker      uint64 // 0..Layout.MaxWorker()
	Lo, Hi      int64  // the window, Unix ms, both inclusive; Hi < Lo is an empty one, to be extended
	RandomStart bool   // start each tick that the clock has reached at a scattered sequence, not at 0: low-rate ids then spread over shards
}

// NewSnowflake makes a generator that has issued nothing. The caller owes it a window that overlaps with no other window of the same
// worker id, ever.
func NewSnowflake(o Options) (*Snowflake, error) {
	l := o.Layout
	if err := l.Check(); err != nil {
		return nil, err
	}
	if o.Worker > l.MaxWorker() {
		return nil, fmt.Errorf("generator: worker id %d: 0 to %d allowed", o.Worker, l.MaxWorker())
	}
	if o.Lo < l.Epoch {
		return nil, fmt.Errorf("generator: window starts at Unix ms %d, before the epoch %d", o.Lo, l.Epoch)
	}
	if o.Hi < o.Lo-1 {
		return nil, fmt.Errorf("generator: window ends at Unix ms %d, more than one before its start %d", o.Hi, o.Lo)
	}
	s := &Snowflake{
		layout: l, seqBits: l.SequenceBits, seqMask: 1<<l.SequenceBits - 1,
		worker: o.Worker << l.workerShift(), random: o.RandomStart, lo: o.Lo, hi: o.Hi,
	}
	loTick, _ := l.window(o.Lo, o.Hi)
	loTick = min(loTick, 1<<l.TimeBits) // past the time field: nothing can be issued
	s.next.Store(uint64(loTick) << l.SequenceBits)
	s.setHi(o.Hi)
	return s, nil
}

// Take issues between 1 and n ids of one tick. now is the present and limit ≥ now the last moment whose tick may be used, both Unix
// ms. With limit = now it never runs ahead of the clock. The errors are ErrAhead, ErrWindow and ErrSealed; nothing is used up then.
func (s *Snowflake) Take(now, limit int64, n int) (Run, error) {
	present, last, hi := s.layout.floorTick(now), s.layout.floorTick(limit), s.hiTick.Load()
	for {
		next := s.next.Load()
		if next >= sealed {
			return Run{}, ErrSealed
		}
		first := next
		if present > int64(next>>s.seqBits) {
			first = uint64(present) << s.seqBits
			if s.random {
				first |= scatter(first^s.worker) & s.seqMask
			}
		}
		tick := int64(first >> s.seqBits)
		if tick > hi {
			return Run{}, ErrWindow
		}
		if tick > last {
			return Run{}, ErrAhead
		}
		got := min(uint64(n), s.seqMask-first&s.seqMask+1)
		if s.next.CompareAndSwap(next, first+got) {
			return s.run(first, got), nil
		}
	}
}

func (s *Snowflake) run(position, n uint64) Run {
	l := &s.layout
	if l.WorkerLow {
		return Run{First: position<<l.WorkerBits | s.worker, Stride: 1 << l.WorkerBits, N: int(n)}
	}
	return Run{First: (position>>l.SequenceBits)<<(l.WorkerBits+l.SequenceBits) | s.worker | position&s.seqMask, Stride: 1, N: int(n)}
}

// Extend lengthens the window by lo..hi, Unix ms, both inclusive. lo must be the old end + 1: a gap may belong to somebody else, and
// needs a new Snowflake. The store must already hold the new end. An end that is not later changes nothing.
func (s *Snowflake) Extend(lo, hi int64) error {
	if lo != s.hi+1 {
		return fmt.Errorf("generator: window ends at Unix ms %d, so it cannot be extended from %d", s.hi, lo)
	}
	if hi > s.hi {
		s.setHi(hi)
	}
	return nil
}

func (s *Snowflake) setHi(hi int64) {
	s.hi = hi
	_, tick := s.layout.window(s.lo, hi)
	s.hiTick.Store(min(tick, 1<<s.layout.TimeBits-1))
}

// Seal ends the generator: after it returns no Take succeeds, not even one that is running. last is the last Unix ms of the last tick
// that ids were issued from, or the start of the window − 1 when there were none. A second call answers the same.
func (s *Snowflake) Seal() (last int64) {
	s.next.Or(sealed)
	return s.Position()
}

// Position is the last Unix ms of the last tick that ids were issued from, or the start of the window − 1 before the first.
func (s *Snowflake) Position() int64 {
	next := s.next.Load() &^ sealed
	if first, _ := s.layout.window(s.lo, math.MaxInt64>>1); next>>s.seqBits <= uint64(first) && next&s.seqMask == 0 {
		return s.lo - 1
	}
	return s.layout.Epoch + (int64((next-1)>>s.seqBits)+1)*s.layout.Unit - 1
}

// Next is the Unix ms at which the tick of the next free position starts: a Take with a limit below it answers ErrAhead.
func (s *Snowflake) Next() int64 {
	return s.layout.Epoch + int64(s.next.Load()&^sealed>>s.seqBits)*s.layout.Unit
}

// Check says what a Take with the same arguments would answer now, and takes nothing.
func (s *Snowflake) Check(now, limit int64) error {
	next := s.next.Load()
	tick := max(s.layout.floorTick(now), int64(next&^sealed>>s.seqBits))
	switch {
	case next >= sealed:
		return ErrSealed
	case tick > s.hiTick.Load():
		return ErrWindow
	case tick > s.layout.floorTick(limit):
		return ErrAhead
	}
	return nil
}

// Worker is the worker id.
func (s *Snowflake) Worker() uint64 { return s.worker >> s.layout.workerShift() }

// End is the last Unix ms of the window.
func (s *Snowflake) End() int64 { return s.layout.Epoch + (s.hiTick.Load()+1)*s.layout.Unit - 1 }

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): the same tick gives the same start, on every machine.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
