package generator

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// PositionsConfig are the settings of Positions.
type PositionsConfig struct {
	Layout   Layout
	Node     uint64        // the worker id in all ids
	RunAhead time.Duration // how far ahead of the clock positions are issued, see Positions
	Ahead    time.Duration // for so long after a block's last tick what is left of it is issued while Away
	// Moment is a clock in ns that never goes back, above 0.
	Moment func() int64
	// Offset is Unix ns minus Moment: what the time is. It may change at any time, by any amount; 0 = not known.
	Offset *atomic.Int64
	// Ring is called when half of the block is used up or in the past. It must return at once.
	Ring func()
}

// Positions issue the ids of one node in strict order: each position, tick and sequence as one number, is above all
// that were issued before, whatever the clock does.
//
//	first = max(next, position of now)      next only grows, by one compare-and-swap per run
//	first < end                             the block that was recorded; a full tick flows into the next
//
// How far ahead of the clock: up to the run-ahead. If next is beyond that already, as after a clock was wrong,
// positions go on at 7/8 of the clock's pace from where that was noticed, so that no client is stopped and the distance
// shrinks.
//
// All methods may be called from any goroutine.
type Positions struct {
	next atomic.Uint64 // the next free position; 0 = no block yet; the top bit means sealed
	_    [120]byte

	end     atomic.Uint64 // the first position past the block
	mark    atomic.Uint64 // where Take rings
	began   atomic.Uint64 // the first position of the block, or that of now if that was later
	skipped atomic.Uint64 // positions since then that were passed over
	away    atomic.Bool
	anchor  atomic.Pointer[anchor]

	c                     PositionsConfig
	unit, epoch, runAhead int64  // ns
	ahead                 uint64 // positions in Config.Ahead
	bits                  uint8
	mask                  uint64
	// of an id: what Layout says, for Take must be cheap
	tickShift, seqShift uint8
	stride, node        uint64
	linear              bool // neighbours in position are neighbours in value, across ticks too
}

// An anchor is where next was found beyond the run-ahead, and when. There is a new one if next has been set beyond what
// the pace from there allows, as by Raise.
type anchor struct {
	position uint64
	moment   int64
}

// NewPositions makes Positions without a block.
func NewPositions(c PositionsConfig) *Positions {
	l := c.Layout
	return &Positions{
		c: c, unit: l.Unit * int64(time.Millisecond), epoch: l.Epoch * int64(time.Millisecond),
		runAhead: int64(c.RunAhead), bits: l.SequenceBits, mask: l.MaxSequence(), linear: l.linear(),
		ahead: l.positions(c.Ahead), tickShift: l.tickShift(), seqShift: l.sequenceShift(),
		stride: l.StrideOf(), node: c.Node << l.workerShift(),
	}
}

func (l Layout) linear() bool { return l.WorkerLow || l.WorkerHigh || l.WorkerBits == 0 }

// AtPosition returns the id of a worker id at a position.
func (l Layout) AtPosition(position, worker uint64) uint64 {
	return position>>l.SequenceBits<<l.tickShift() | position&l.MaxSequence()<<l.sequenceShift() |
		worker<<l.workerShift()
}

// PositionOf returns the position of an id, whichever daemon issued it.
func (l Layout) PositionOf(id uint64) uint64 {
	return id>>l.tickShift()&(1<<l.TimeBits-1)<<l.SequenceBits | id>>l.sequenceShift()&l.MaxSequence()
}

// StrideOf returns the distance of the ids of two neighbouring positions of a tick.
func (l Layout) StrideOf() uint64 { return 1 << l.sequenceShift() }

// InRow returns how many ids in a row there are at most, if they may not run ahead of the clock by more than runAhead.
// Where the worker id is between time and sequence, the ids of two ticks are not in a row.
func (l Layout) InRow(runAhead time.Duration) uint64 {
	if !l.linear() {
		return l.MaxSequence() + 1
	}
	return l.positions(runAhead)
}

// lastTime is the last Unix ms whose ns a Positions can count, with its Ahead: in the year 2261.
const lastTime = 9_200_000_000_000

// LastPosition returns the largest position: in the last tick of the time field, but not after the year 2261.
func (l Layout) LastPosition() uint64 {
	ticks := min(1<<l.TimeBits, uint64(max(1, (lastTime-l.Epoch)/l.Unit)))
	return ticks<<l.SequenceBits - 1
}

// positions returns how many positions there are in a time, at least those of one tick.
func (l Layout) positions(d time.Duration) uint64 {
	return uint64(max(1, d.Milliseconds()/l.Unit)) << l.SequenceBits
}

// Take issues between 1 and n ids of one tick; n below 1 counts as 1. moment is one of Config.Moment, not later than
// now. The errors are ErrEmpty, ErrAhead and ErrSealed; they change nothing.
func (p *Positions) Take(moment int64, n int) (id.Run, error) {
	return p.take(moment, uint64(max(n, 1)), false)
}

// Reserve issues exactly n ids in a row, at most Layout.InRow, or none. It passes over the rest of a tick into which
// they do not fit. The errors are those of Take.
func (p *Positions) Reserve(moment int64, n int) (id.Run, error) {
	return p.take(moment, uint64(max(n, 1)), true)
}

func (p *Positions) take(moment int64, n uint64, whole bool) (id.Run, error) {
	for {
		next := p.next.Load()
		if next >= sealed {
			return id.Run{}, ErrSealed
		}
		first, got, err := p.place(next, moment, n, whole)
		if err != nil {
			return id.Run{}, err
		}
		if first > next { // they count as passed over before they are, so that Issued is never too large
			p.skipped.Add(first - next)
		}
		if p.next.CompareAndSwap(next, first+got) {
			if mark := p.mark.Load(); next < mark && first+got >= mark {
				p.c.Ring()
			}
			return id.Run{First: p.Value(first), Stride: p.stride, N: int(got)}, nil
		}
		if first > next {
			p.skipped.Add(next - first)
		}
	}
}

// place returns the positions to issue when next is free.
func (p *Positions) place(next uint64, moment int64, n uint64, whole bool) (first, got uint64, err error) {
	offset, end := p.c.Offset.Load(), p.end.Load()
	if offset == 0 || next == 0 {
		return 0, 0, ErrEmpty
	}
	zero := p.epoch - offset // the moment at which tick 0 begins
	first = next
	if moment >= zero+int64(next>>p.bits+1)*p.unit { // the clock has passed the tick in use
		first = uint64((moment-zero)/p.unit) << p.bits
		if first >= end && p.away.Load() && moment < zero+int64(end>>p.bits)*p.unit+int64(p.c.Ahead) {
			first = max(next, end-min(end, p.ahead)) // not older than it has to be
		}
	}
	free := p.mask - first&p.mask + 1
	switch {
	case whole && p.linear:
		free = n
	case whole && free < n:
		first, free = first|p.mask+1, p.mask+1
	}
	if first >= end || whole && min(free, end-first) < n {
		return 0, 0, ErrEmpty
	}
	got = min(n, free, end-first)
	start := zero + int64((first+got-1)>>p.bits)*p.unit
	if start > moment+p.runAhead { // by now it may be near enough: the request has waited
		moment = max(moment, p.c.Moment())
	}
	if start <= moment+p.runAhead {
		if p.anchor.Load() != nil {
			p.anchor.Store(nil)
		}
		return first, got, nil
	}
	limit := p.paced(next, moment)
	if first >= limit || whole && limit-first < n {
		return 0, 0, ErrAhead
	}
	return first, min(got, limit-first), nil
}

// paced returns the first position that may not be issued yet, while next is beyond the run-ahead.
func (p *Positions) paced(next uint64, moment int64) uint64 {
	old := p.anchor.Load()
	if old != nil {
		if limit := p.limit(old, moment); next <= limit {
			return limit
		}
	}
	a := &anchor{next, moment}
	if !p.anchor.CompareAndSwap(old, a) {
		if a = p.anchor.Load(); a == nil { // it is within the run-ahead again
			return next
		}
	}
	return p.limit(a, moment)
}

// limit returns the first position beyond the pace from an anchor.
func (p *Positions) limit(a *anchor, moment int64) uint64 {
	return a.position + 1 + uint64(float64(max(0, moment-a.moment))*7/8/float64(p.unit)*float64(p.mask+1))
}

// Append lengthens the block: the positions lo to hi are recorded for this issuer alone, from its first Append on.
// lo only grows if positions must not be issued any more. The error is ErrSealed.
func (p *Positions) Append(lo, hi uint64) error {
	if p.next.Load() == 0 { // what is past already is not issued, also while Away
		lo = max(lo, min(p.present(), hi))
		p.began.Store(lo)
	}
	p.passTo(lo)
	next := p.next.Load()
	if next >= sealed {
		return ErrSealed
	}
	end := max(p.end.Load(), hi+1)
	from := min(max(next, p.present()), end)
	p.mark.Store(from + (end-from)/2)
	p.end.Store(end)
	if p.Low() {
		p.c.Ring()
	}
	return nil
}

// passTo makes a position the least that is issued.
func (p *Positions) passTo(least uint64) {
	for {
		next := p.next.Load()
		if next >= least { // or sealed
			return
		}
		if next != 0 {
			p.skipped.Add(least - next)
		}
		if p.next.CompareAndSwap(next, least) {
			return
		}
		if next != 0 {
			p.skipped.Add(next - least)
		}
	}
}

// Raise makes sure that no Take or Reserve that begins after Raise has returned issues a position below atLeast.
func (p *Positions) Raise(atLeast uint64) {
	if p.began.Load() != 0 {
		p.passTo(atLeast)
	}
	p.c.Ring()
}

// Away says that the block cannot be lengthened for now: while that is so, what is left of it is issued a little
// longer.
func (p *Positions) Away(away bool) { p.away.Store(away) }

// Seal stops it for good: after Seal returns nothing is issued. The positions from next on to the end of the block,
// rest of them, were never issued.
func (p *Positions) Seal() (next, rest uint64) {
	next = p.next.Or(sealed) &^ sealed
	if end := p.end.Load(); next != 0 && next < end {
		return next, end - next
	}
	return 0, 0
}

// present returns the position of now, or 0 if the time is not known.
func (p *Positions) present() uint64 {
	offset := p.c.Offset.Load()
	since := p.c.Moment() + offset - p.epoch
	if offset == 0 || since < 0 {
		return 0
	}
	return uint64(since/p.unit) << p.bits
}

// Span returns what is needed of a record: the position of now, and the last position up to which the block shall reach
// from there, with at least need more than were issued; tick is the mask of a tick. ok = false: the time is not known.
func (p *Positions) Span(need uint64) (from, to, tick uint64, ok bool) {
	from = p.present()
	to = from + p.c.Layout.positions(p.c.Ahead)
	if next := p.next.Load() &^ sealed; next != 0 {
		to = max(to, next-1+need)
	}
	return from, to, p.mask, from != 0
}

// Has reports whether n positions are at hand.
func (p *Positions) Has(n uint64) bool { return max(p.next.Load(), p.present())+n <= p.end.Load() }

// Low reports whether half of the block is used up.
func (p *Positions) Low() bool { return p.next.Load() >= p.mark.Load() && p.mark.Load() != 0 }

// Left returns how many positions are at hand.
func (p *Positions) Left() uint64 {
	from, end := max(p.next.Load()&^sealed, p.present()), p.end.Load()
	return end - min(from, end)
}

// Last returns the largest id that was issued or passed over, or 0.
func (p *Positions) Last() uint64 {
	if next := p.next.Load() &^ sealed; next > p.began.Load() {
		return p.Value(next - 1)
	}
	return 0
}

// Hi returns the id of the block's last position, or 0.
func (p *Positions) Hi() uint64 {
	if end := p.end.Load(); end != 0 {
		return p.Value(end - 1)
	}
	return 0
}

// Distance returns how far the last position is ahead of the clock; negative if it is behind.
func (p *Positions) Distance() time.Duration {
	last, now := (p.next.Load()&^sealed)>>p.bits, p.present()>>p.bits
	if last == 0 || now == 0 {
		return 0
	}
	return time.Duration(max(math.MinInt64/2, (int64(last)-int64(now))*p.unit))
}

// Issued returns how many ids were issued. It may be too small for a moment, and never too large.
func (p *Positions) Issued() uint64 {
	gone := p.next.Load()&^sealed - p.began.Load()
	return gone - min(p.skipped.Load(), gone)
}

// Value returns the id of a position.
func (p *Positions) Value(position uint64) uint64 {
	return position>>p.bits<<p.tickShift | position&p.mask<<p.seqShift | p.node
}
