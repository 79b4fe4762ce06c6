package generator

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/id"
)

var (
	// ErrAhead: the next free id lies after the limit that the caller gave. Either ids are asked for faster than the layout
	// allows, or the clock stands behind the last id. Retry when the clock has moved; Next says how far that is.
	ErrAhead = errors.New("generator: next id lies ahead of the clock")
	// ErrWindow: the window is used up, or is not long enough to reach the present. Retry after Extend.
	ErrWindow = errors.New("generator: window does not reach")
	// ErrSealed: Seal was called. Never retry on this Snowflake.
	ErrSealed = errors.New("generator: sealed")
)

// A Snowflake issues the ids of one worker id inside one window of time that it was granted.
//
// All that it knows is one 64-bit word: the next free position, tick<<SequenceBits | sequence. It only ever grows, by one
// compare-and-swap per run, so no two Takes get the same position; nothing in it depends on the clock telling the truth.
//
//	first = max(next, now<<SequenceBits)     never below what was issued, at the present when that is free
//	tick(first) ≤ tick(limit)                how far ahead of the clock the caller allows
//	tick(first) < end                        the window: other holders of this worker id start there
//
// All methods may be called from any goroutine, Extend from one at a time.
type Snowflake struct {
	next *atomic.Uint64 // next free position; the top bit means sealed
	end  atomic.Uint64  // first tick past the window

	// The layout's parts that Take needs, so that it copies nothing.
	epoch   int64
	unit    int64
	seqBits uint8
	random  bool
	seqMask uint64
	worker  uint64 // shifted into its place
	high    uint8  // how far the tick is shifted into its place,
	low     uint8  // and how far the sequence is

	layout Layout
	first  uint64 // first tick of the window
	lo     int64  // the window in Unix ms: its start,
	hi     int64  // and its end, which Extend alone reads and writes
}

const sealed = 1 << 63

// Options are a Snowflake's settings.
type Options struct {
	Layout Layout
	Worker uint64 // 0..Layout.MaxWorker()
	// The window, Unix ms, both inclusive. Hi = Lo−1 is an empty one, to be extended; math.MaxInt64 is no end. What lies before the
	// epoch is not used.
	Lo, Hi      int64
	RandomStart bool // start each tick that the clock has reached at a scattered sequence, not at 0: low-rate ids then spread over shards
	// Word is where the position is kept, which Layout.Issued reads: nil is memory of the Snowflake's own. It may be memory that outlives the
	// process. It must hold no position yet, must stay mapped as long as the process runs, and share its cache line with nothing.
	Word *atomic.Uint64
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
	if o.Lo >= l.End() {
		return nil, l.CheckTime(o.Lo)
	}
	if o.Hi < o.Lo && o.Hi != o.Lo-1 {
		return nil, fmt.Errorf("generator: window ends at Unix ms %d, more than one before its start %d", o.Hi, o.Lo)
	}
	s := &Snowflake{
		epoch: l.Epoch, unit: l.Unit, seqBits: l.SequenceBits, seqMask: l.MaxSequence(),
		worker: o.Worker << l.workerShift(), high: l.WorkerBits + l.SequenceBits, low: l.sequenceShift(),
		random: o.RandomStart, layout: l, lo: o.Lo, hi: o.Hi,
	}
	first, end := l.window(o.Lo, o.Hi)
	s.first = first
	s.end.Store(end)
	s.next = o.Word
	if s.next == nil {
		s.next = &new(ownWord).word
	}
	if was := s.next.Load(); was&^sealed != 0 || !s.next.CompareAndSwap(was, first<<l.SequenceBits) {
		return nil, fmt.Errorf("generator: worker id %d: the word is another generator's", o.Worker)
	}
	return s, nil
}

// An ownWord shares its cache line with no other lane's, nor the pair of lines that a prefetcher takes.
type ownWord struct {
	word atomic.Uint64
	_    [120]byte
}

// Take issues between 1 and n ids, all of one tick; n below 1 counts as 1. now is the present and limit ≥ now the last moment whose tick
// may be used, both Unix ms. With limit = now it never runs ahead of the clock. The errors are ErrAhead, ErrWindow and ErrSealed, and
// leave everything as it was.
func (s *Snowflake) Take(now, limit int64, n int) (id.Run, error) {
	return s.TakeLeaving(now, limit, n, 0)
}

// TakeLeaving is Take that leaves the last ids of limit's tick to others, leave of them. Where only those are free, the error is ErrAhead.
func (s *Snowflake) TakeLeaving(now, limit int64, n int, leave uint64) (id.Run, error) {
	for {
		next := s.next.Load()
		if next >= sealed {
			return id.Run{}, ErrSealed
		}
		first, tick := next, next>>s.seqBits
		start := s.epoch + int64(tick)*s.unit
		// Division is slow, so it is done only where the clock has passed the tick in use.
		if now >= start+s.unit {
			tick = uint64(now-s.epoch) / uint64(s.unit)
			if tick >= s.end.Load() {
				return id.Run{}, ErrWindow // also what keeps the shift from overflowing
			}
			first = tick << s.seqBits
			if s.random {
				first |= scatter(first^s.worker) & s.seqMask
			}
		} else if start > limit {
			return id.Run{}, ErrAhead
		} else if tick >= s.end.Load() {
			return id.Run{}, ErrWindow
		}
		free := s.seqMask - first&s.seqMask + 1
		if leave != 0 && s.epoch+int64(tick+1)*s.unit > limit {
			if free <= leave {
				return id.Run{}, ErrAhead
			}
			free -= leave
		}
		got := min(uint64(max(n, 1)), free)
		if s.next.CompareAndSwap(next, first+got) {
			value := tick<<s.high | (first&s.seqMask)<<s.low | s.worker
			return id.Run{First: value, Stride: 1 << s.low, N: int(got)}, nil
		}
	}
}

// Extend lengthens the window by lo..hi, Unix ms, both inclusive. lo must be the old end + 1: a gap may belong to somebody else, and
// needs a new Snowflake. The store must already hold the new end. An end that is not later changes nothing.
func (s *Snowflake) Extend(lo, hi int64) error {
	if lo-1 != s.hi {
		return fmt.Errorf("generator: window ends at Unix ms %d, so it cannot be extended from %d", s.hi, lo)
	}
	if hi > s.hi {
		s.hi = hi
		_, end := s.layout.window(s.lo, hi)
		s.end.Store(end)
	}
	return nil
}

// Seal ends the generator: after it returns no Take succeeds, not even one that is running. last is what Position says, for ever.
func (s *Snowflake) Seal() (last int64) {
	return s.position(s.next.Or(sealed)) // in one step: a Take between two would not be in what is reported
}

// Position is the last Unix ms of the last tick that ids were issued from, or the start of the window − 1 before the first. Whoever
// gets this worker id next must start above it.
func (s *Snowflake) Position() int64 { return s.position(s.next.Load()) }

func (s *Snowflake) position(word uint64) int64 {
	next := word &^ sealed
	if next == s.first<<s.seqBits {
		return s.lo - 1
	}
	return s.layout.Issued(next)
}

// Used says whether any id was issued.
func (s *Snowflake) Used() bool { return s.next.Load()&^sealed != s.first<<s.seqBits }

// Next is the first Unix ms of the tick of the next free id: no Take issues below it, and ErrAhead lasts until limit reaches it.
func (s *Snowflake) Next() int64 {
	return s.epoch + int64(s.next.Load()&^sealed>>s.seqBits)*s.unit
}

// Check says what a Take with the same arguments would answer now, and takes nothing.
func (s *Snowflake) Check(now, limit int64) error {
	next := s.next.Load()
	if next >= sealed {
		return ErrSealed
	}
	tick := next >> s.seqBits
	start := s.epoch + int64(tick)*s.unit
	if now >= start+s.unit {
		tick = uint64(now-s.epoch) / uint64(s.unit)
	} else if start > limit {
		return ErrAhead
	}
	if tick >= s.end.Load() {
		return ErrWindow
	}
	return nil
}

// End is the last Unix ms of the window's last tick: ErrWindow begins after it. Without any tick it lies before Next.
func (s *Snowflake) End() int64 { return s.epoch + int64(s.end.Load())*s.unit - 1 }

// Worker is the worker id.
func (s *Snowflake) Worker() uint64 { return s.worker >> s.layout.workerShift() }

// Layout is the layout of the ids.
func (s *Snowflake) Layout() Layout { return s.layout }

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): the same tick gives the same start, on every machine.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
