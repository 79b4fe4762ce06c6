package generator

import (
	"fmt"
	"math/bits"
	"time"
)

// A Layout says how one id is put together: which bits hold the time, the worker id and the sequence, what a tick is and when
// tick 0 was. The zero Layout is not valid; see Check.
type Layout struct {
	Name         string
	Epoch        int64 // start of tick 0, Unix milliseconds
	Unit         int64 // length of a tick, milliseconds, 1..60000
	TimeBits     uint8
	WorkerBits   uint8
	SequenceBits uint8
	WorkerLow    bool // time, sequence, worker (Sonyflake's order) instead of time, worker, sequence
}

// Katsubushi is the layout of kayac/go-katsubushi: 41 bits of milliseconds since 2015-01-01T00:00:00Z, 10 bits of worker id and 12 of
// sequence. It lasts until 2084-09-06.
//
//	 63  62                                        22 21        12 11          0
//	┌───┬────────────────────────────────────────────┬────────────┬─────────────┐
//	│ 0 │ milliseconds since 2015-01-01T00:00:00Z    │ worker id  │ sequence    │
//	└───┴────────────────────────────────────────────┴────────────┴─────────────┘
var Katsubushi = Layout{Name: "katsubushi", Epoch: 1420070400000, Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}

// Check says what is wrong with the layout, or nil. Every other method needs a layout that passes.
func (l Layout) Check() error {
	total := int(l.TimeBits) + int(l.WorkerBits) + int(l.SequenceBits)
	switch {
	case l.Unit < 1 || l.Unit > 60000:
		return fmt.Errorf("time unit of %d ms: 1 to 60000 allowed", l.Unit)
	case l.TimeBits < 1 || l.SequenceBits < 1 || total > 63:
		return fmt.Errorf("%d time + %d worker + %d sequence bits: at least 1, 0, 1 and at most 63 together allowed", l.TimeBits, l.WorkerBits, l.SequenceBits)
	}
	if hi, lo := bits.Mul64(uint64(1)<<l.TimeBits, uint64(l.Unit)); hi != 0 || lo > 1<<61 || l.Epoch < -1<<61 || l.Epoch > 1<<61 {
		return fmt.Errorf("epoch %d and 2^%d ticks of %d ms do not fit 64 bits of milliseconds", l.Epoch, l.TimeBits, l.Unit)
	}
	return nil
}

// MaxWorker is the largest worker id.
func (l Layout) MaxWorker() uint64 { return 1<<l.WorkerBits - 1 }

// End is the first Unix millisecond that the time field can no longer express.
func (l Layout) End() int64 { return l.Epoch + l.Unit<<l.TimeBits }

// Parts is an id taken apart.
type Parts struct {
	Time     time.Time // start of the tick, UTC
	Worker   uint64
	Sequence uint64
}

// Decompose takes an id apart. Every uint64 has an answer; bits above the layout's are ignored.
func (l Layout) Decompose(id uint64) Parts {
	w, s := id>>l.workerShift(), id>>l.sequenceShift()
	tick := id >> (l.WorkerBits + l.SequenceBits) & (1<<l.TimeBits - 1)
	return Parts{
		Time:     time.UnixMilli(l.Epoch + int64(tick)*l.Unit).UTC(),
		Worker:   w & l.MaxWorker(),
		Sequence: s & (1<<l.SequenceBits - 1),
	}
}

func (l Layout) workerShift() uint8 {
	if l.WorkerLow {
		return 0
	}
	return l.SequenceBits
}

func (l Layout) sequenceShift() uint8 {
	if l.WorkerLow {
		return l.WorkerBits
	}
	return 0
}

// floorTick is the tick that holds Unix millisecond ms; negative before the epoch.
func (l Layout) floorTick(ms int64) int64 {
	d := ms - l.Epoch
	if l.Unit == 1 {
		return d
	}
	q := d / l.Unit
	if d%l.Unit < 0 {
		q--
	}
	return q
}

// window turns a window of milliseconds, both ends inclusive, into the ticks that lie wholly inside it. lo > hi when none does.
func (l Layout) window(lo, hi int64) (loTick, hiTick int64) {
	return l.floorTick(lo + l.Unit - 1), l.floorTick(hi+1) - 1
}
