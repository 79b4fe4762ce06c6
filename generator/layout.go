package generator

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// A Layout says how an id is composed: which bits hold the time, the worker id and the sequence, how
// long a tick is and when tick 0 was. The zero Layout is not valid; see Check. Layouts may be compared
// with ==.
type Layout struct {
	Name         string
	Epoch        int64 // start of tick 0, Unix milliseconds
	Unit         int64 // length of a tick, milliseconds, 1..60000
	TimeBits     uint8
	WorkerBits   uint8
	SequenceBits uint8
	WorkerLow    bool // time, sequence, worker (Sonyflake's order) instead of time, worker, sequence
	WorkerHigh   bool // worker, time, sequence: ids of one worker id are in the order of time, those of several are not
}

// Check returns what is wrong with the layout, or nil. All other methods need a layout that passes.
func (l Layout) Check() error {
	t, w, s := int(l.TimeBits), int(l.WorkerBits), int(l.SequenceBits)
	switch {
	case l.WorkerLow && l.WorkerHigh:
		return errors.New("generator: a worker id both below and above the time")
	case l.Unit < 1 || l.Unit > 60000:
		return fmt.Errorf("generator: time unit of %d ms: 1 to 60000 allowed", l.Unit)
	case t < 1 || s < 1:
		return fmt.Errorf("generator: %d time and %d sequence bits: at least 1 each needed", t, s)
	case t+w+s > 64:
		return fmt.Errorf("generator: %d time + %d worker + %d sequence bits: an id has 64", t, w, s)
	case t+s > 62:
		// A Snowflake's word must hold every position, the one past the last, and the bit for sealed.
		return fmt.Errorf("generator: %d time + %d sequence bits: at most 62 together allowed", t, s)
	}
	if hi, lo := bits.Mul64(1<<t, uint64(l.Unit)); hi != 0 || lo > 1<<61 || l.Epoch < -1<<61 || l.Epoch > 1<<61 {
		return fmt.Errorf("generator: epoch %d and 2^%d ticks of %d ms do not fit 64 bits of milliseconds", l.Epoch, t,
			l.Unit)
	}
	return nil
}

// MaxWorker is the largest worker id.
func (l Layout) MaxWorker() uint64 { return 1<<l.WorkerBits - 1 }

// MaxSequence is the largest sequence; a worker id has MaxSequence+1 ids per tick.
func (l Layout) MaxSequence() uint64 { return 1<<l.SequenceBits - 1 }

// End is the first Unix millisecond that does not fit into the time field.
func (l Layout) End() int64 { return l.Epoch + l.Unit<<l.TimeBits }

// CheckTime returns why ids cannot carry the Unix millisecond ms (it is before the epoch or past the
// time field), or nil.
func (l Layout) CheckTime(ms int64) error {
	switch {
	case ms < l.Epoch:
		return fmt.Errorf("generator: %s is before the epoch of layout %s, %s", date(ms), l, date(l.Epoch))
	case ms >= l.End():
		return fmt.Errorf("generator: %s is past the time field of layout %s, which ends at %s", date(ms), l, date(l.End()))
	}
	return nil
}

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// String returns the layout's name, or its fingerprint if it has none.
func (l Layout) String() string {
	if l.Name != "" {
		return l.Name
	}
	return l.Fingerprint()
}

// Fingerprint contains everything about the layout that the uniqueness of ids depends on, but not the
// name. Daemons with different fingerprints must not share worker ids. It has no spaces.
func (l Layout) Fingerprint() string {
	order := "time,worker,sequence"
	switch {
	case l.WorkerLow:
		order = "time,sequence,worker"
	case l.WorkerHigh:
		order = "worker,time,sequence"
	}
	return fmt.Sprintf("epoch=%d;unit=%dms;bits=%d/%d/%d;order=%s", l.Epoch, l.Unit, l.TimeBits, l.WorkerBits,
		l.SequenceBits, order)
}

// Parts are the parts of an id.
type Parts struct {
	Time     time.Time // start of the tick, UTC
	Worker   uint64
	Sequence uint64
}

// Decompose takes an id apart. It accepts every uint64 and ignores bits above the layout's.
func (l Layout) Decompose(id uint64) Parts {
	tick := id >> l.tickShift() & (1<<l.TimeBits - 1)
	return Parts{
		Time:     time.UnixMilli(l.Epoch + int64(tick)*l.Unit).UTC(),
		Worker:   id >> l.workerShift() & l.MaxWorker(),
		Sequence: id >> l.sequenceShift() & l.MaxSequence(),
	}
}

// Compose makes the id of these parts. A time within a tick counts as the tick's start. A part that
// does not fit into its bits is an error.
func (l Layout) Compose(p Parts) (uint64, error) {
	ms := p.Time.UnixMilli()
	if err := l.CheckTime(ms); err != nil {
		return 0, err
	}
	if p.Worker > l.MaxWorker() {
		return 0, fmt.Errorf("generator: worker id %d: 0 to %d allowed", p.Worker, l.MaxWorker())
	}
	if p.Sequence > l.MaxSequence() {
		return 0, fmt.Errorf("generator: sequence %d: 0 to %d allowed", p.Sequence, l.MaxSequence())
	}
	tick := uint64((ms - l.Epoch) / l.Unit)
	return tick<<l.tickShift() | p.Worker<<l.workerShift() | p.Sequence<<l.sequenceShift(), nil
}

func (l Layout) tickShift() uint8 {
	if l.WorkerHigh {
		return l.SequenceBits
	}
	return l.WorkerBits + l.SequenceBits
}

func (l Layout) workerShift() uint8 {
	switch {
	case l.WorkerLow:
		return 0
	case l.WorkerHigh:
		return l.TimeBits + l.SequenceBits
	}
	return l.SequenceBits
}

func (l Layout) sequenceShift() uint8 {
	if l.WorkerLow {
		return l.WorkerBits
	}
	return 0
}

// First returns the position that a Snowflake begins with if its window starts at lo, Unix ms: its word
// before it has issued an id.
func (l Layout) First(lo int64) uint64 {
	first, _ := l.window(lo, lo)
	return first << l.SequenceBits
}

// Issued returns the last Unix ms of the last tick that ids were issued from, according to a
// Snowflake's word: the word itself, a copy, or what a dead process left behind. For a Snowflake that
// issued nothing it is the end of the tick before its window. The result is meaningless if the word
// holds no position.
func (l Layout) Issued(word uint64) int64 {
	return l.Epoch + int64((word&^sealed-1)>>l.SequenceBits+1)*l.Unit - 1
}

// window converts a window of milliseconds, both ends inclusive, to the ticks that lie wholly inside
// it: first ≤ tick < end. Both results lie within the time field or just past it. If no tick fits,
// first ≥ end.
func (l Layout) window(lo, hi int64) (first, end uint64) {
	lo, hi = min(max(lo, l.Epoch), l.End()), min(max(hi, l.Epoch-1), l.End()-1)
	return uint64(lo-l.Epoch+l.Unit-1) / uint64(l.Unit), uint64(hi+1-l.Epoch) / uint64(l.Unit)
}
