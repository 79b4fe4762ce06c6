package generator

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/id"
)

var (
	// ErrAhead: the next free id lies after the caller's limit. Either callers ask for ids faster than
	// the layout allows, or the clock is behind the last id. Retry when the clock has reached Next.
	ErrAhead = errors.New("generator: next id lies ahead of the clock")
	// ErrWindow: the window is used up, or ends before the present. Retry after Extend.
	ErrWindow = errors.New("generator: window does not reach")
	// ErrSealed: Seal was called. Never retry on this Snowflake.
	ErrSealed = errors.New("generator: sealed")
)

// A Snowflake issues the ids of one worker id inside one window.
//
// Its only changing state, besides the window's end, is one 64-bit word: the next free position,
// tick<<SequenceBits | sequence. The word only grows, by one compare-and-swap per run, so no two Takes
// get the same position, whatever the clock says.
//
//	first = max(next, now<<SequenceBits)     never below what was issued; at the present if that is free
//	tick(first) ≤ tick(limit)                how far ahead of the clock the caller allows
//	tick(first) < end                        the window's end: other holders of this worker id start there
//
// All methods may be called from any goroutine, but Extend only from one at a time.
type Snowflake struct {
	next *atomic.Uint64 // next free position; the top bit means sealed
	end  atomic.Uint64  // first tick past the window

	// The parts of the layout that Take needs, so that it copies nothing.
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
	hi     int64  // and its end, which only Extend reads and writes
}

const sealed = 1 << 63

// Options are a Snowflake's settings.
type Options struct {
	Layout Layout
	Worker uint64 // 0..Layout.MaxWorker()
	// The window, Unix ms, both inclusive. Hi = Lo−1 is an empty window, for Extend to lengthen;
	// math.MaxInt64 means no end. The part before the epoch is not used.
	Lo, Hi int64
	// start each tick that the clock has reached at a scattered sequence instead of 0; ids at a low
	// rate then spread over shards
	RandomStart bool
	// Word is where the position is kept; Layout.Issued reads it. With nil the Snowflake allocates one.
	// The memory may outlive the process. It must hold 0 or Layout.First of the window, must stay mapped
	// as long as the process runs, and must have a cache line of its own.
	Word *atomic.Uint64
}

// NewSnowflake makes a generator that has issued nothing. The caller must make sure that the window
// never overlaps any other window of the same worker id.
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
		worker: o.Worker << l.workerShift(), high: l.tickShift(), low: l.sequenceShift(),
		random: o.RandomStart, layout: l, lo: o.Lo, hi: o.Hi,
	}
	first, end := l.window(o.Lo, o.Hi)
	s.first = first
	s.end.Store(end)
	s.next = o.Word
	if s.next == nil {
		s.next = &new(ownWord).word
	}
	// A word that was sealed is refused, whether or not ids were issued from it: it stays sealed.
	was, start := s.next.Load(), first<<l.SequenceBits
	if was != start && was&^sealed != 0 || !s.next.CompareAndSwap(was, start) {
		return nil, fmt.Errorf("generator: worker id %d: the word is another generator's", o.Worker)
	}
	return s, nil
}

// An ownWord is padded so that no other lane's word is in its cache line, or in the pair of lines that
// a prefetcher loads.
type ownWord struct {
	word atomic.Uint64
	_    [120]byte
}

// Take issues between 1 and n ids, all in one tick; n below 1 counts as 1. now is the present, and
// limit ≥ now is the last moment whose tick may be used, both Unix ms. With limit = now, Take never
// runs ahead of the clock. The errors are ErrAhead, ErrWindow and ErrSealed; they change nothing.
func (s *Snowflake) Take(now, limit int64, n int) (id.Run, error) {
	return s.TakeLeaving(now, limit, n, 0)
}

// TakeLeaving is Take, but it does not take the last leave ids of limit's tick. If only those are
// free, it returns ErrAhead.
func (s *Snowflake) TakeLeaving(now, limit int64, n int, leave uint64) (id.Run, error) {
	for {
		next := s.next.Load()
		if next >= sealed {
			return id.Run{}, ErrSealed
		}
		first, tick := next, next>>s.seqBits
		start := s.epoch + int64(tick)*s.unit
		end := start + s.unit // of the tick
		// Division is slow, so divide only when the clock has passed the tick in use.
		if now >= end {
			tick = uint64(now-s.epoch) / uint64(s.unit)
			if tick >= s.end.Load() {
				return id.Run{}, s.over() // this check also keeps the shift from overflowing
			}
			end = s.epoch + int64(tick+1)*s.unit
			first = tick << s.seqBits
			if s.random {
				first |= scatter(first^s.worker) & s.seqMask
			}
		} else if start > limit {
			return id.Run{}, ErrAhead
		} else if tick >= s.end.Load() {
			return id.Run{}, s.over()
		}
		free := s.seqMask - first&s.seqMask + 1
		if end > limit { // it is limit's tick
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

// over says why the window does not reach: Seal, which may have come since the word was read, ends
// it too.
func (s *Snowflake) over() error {
	if s.next.Load() >= sealed {
		return ErrSealed
	}
	return ErrWindow
}

// Extend lengthens the window by lo..hi, Unix ms, both inclusive. lo must be the old end + 1: a gap may
// belong to another holder, so a window after a gap needs a new Snowflake. The store must already have
// recorded the new end. If hi is not later than the old end, nothing changes.
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

// Seal stops the generator for good: after Seal returns no Take succeeds, not even one that is running.
// last is the final Position.
func (s *Snowflake) Seal() (last int64) {
	last = s.position(s.next.Or(sealed)) // one atomic step: last would miss a Take between two steps
	s.end.Store(0)                       // others may set a word back that lies in a file
	return last
}

// Position returns the last Unix ms of the last tick that ids were issued from, or the window's
// start − 1 if there are none yet. The next holder of this worker id must start above it.
func (s *Snowflake) Position() int64 { return s.position(s.next.Load()) }

func (s *Snowflake) position(word uint64) int64 {
	next := word &^ sealed
	if next == s.first<<s.seqBits {
		return s.lo - 1
	}
	return s.layout.Issued(next)
}

// Used reports whether any id was issued.
func (s *Snowflake) Used() bool { return s.next.Load()&^sealed != s.first<<s.seqBits }

// Next returns the first Unix ms of the tick of the next free id. No Take issues below it, and ErrAhead
// lasts until limit reaches it.
func (s *Snowflake) Next() int64 {
	return s.epoch + int64(s.next.Load()&^sealed>>s.seqBits)*s.unit
}

// Check returns the error that a Take with the same arguments would return now, without taking ids.
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
		return s.over()
	}
	return nil
}

// End returns the last Unix ms of the window's last tick; ErrWindow begins after it. If the window has
// no whole tick, End lies before Next.
func (s *Snowflake) End() int64 { return s.epoch + int64(s.end.Load())*s.unit - 1 }

// Worker is the worker id.
func (s *Snowflake) Worker() uint64 { return s.worker >> s.layout.workerShift() }

// Layout is the layout of the ids.
func (s *Snowflake) Layout() Layout { return s.layout }

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014). The same tick gives the same start
// on every machine.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
