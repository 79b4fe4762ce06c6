package generator

import (
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A TextLayout makes text ids out of a Snowflake's ids: the same time, sequence and worker id in other
// clothes, with random bits behind them. So a text id is unique because the number is, and the random
// bits only make it hard to guess. The number must not be issued as well.
//
//	UUID7     48: Unix ms                │4: 7│12    │2: 2│62
//	ULID      48: Unix ms                │80
//	ObjectID  32: Unix seconds │10: ms   │54
//	                                      └ sequence, worker id, random bits
//
// The sequence comes before the worker id, so the order of the texts of one worker id is the order in
// which they were issued. Sequence and worker id are as wide as in the number's layout. The time is the
// start of the tick, so it is exact to the tick.
type TextLayout struct {
	kind   TextKind
	layout Layout
	point  uint8  // bits of sequence and worker id together
	limit  uint64 // the first Unix ms that does not fit
}

// A TextKind is a kind of id that is not a number and contains a time.
type TextKind uint8

const (
	UUID7    TextKind = iota // UUID of RFC 9562, version 7
	ULID                     // github.com/ulid/spec
	ObjectID                 // BSON's; other programs read its time, its rest is not theirs
)

func (k TextKind) String() string { return [...]string{"uuid7", "ulid", "objectid"}[k] }

// Form is how ids of this kind are written.
func (k TextKind) Form() id.Form { return [...]id.Form{id.UUID, id.ULID, id.ObjectID}[k] }

// room is the number of bits behind the time.
func (k TextKind) room() int { return [...]int{74, 80, 54}[k] }

// NewTextLayout makes a TextLayout for the numbers of a layout that passes Check. It returns an error if
// sequence and worker id do not fit.
func NewTextLayout(k TextKind, l Layout) (TextLayout, error) {
	t := TextLayout{kind: k, layout: l, point: l.WorkerBits + l.SequenceBits, limit: 1 << 48}
	if int(t.point) > k.room() {
		return t, fmt.Errorf("generator: %d worker + %d sequence bits: %s has %d for both", l.WorkerBits, l.SequenceBits, k,
			k.room())
	}
	if k == ObjectID {
		t.limit = 1000 << 32
	}
	return t, nil
}

// Kind is the kind of the ids.
func (t *TextLayout) Kind() TextKind { return t.kind }

// RandomBits is how many bits of an id are random. Fewer than 64 random bits are used.
func (t *TextLayout) RandomBits() int { return min(t.kind.room()-int(t.point), 64) }

// End is the first Unix millisecond that does not fit into the ids.
func (t *TextLayout) End() int64 { return int64(t.limit) }

// CheckTime returns why ids cannot carry the Unix millisecond ms, or nil.
func (t *TextLayout) CheckTime(ms int64) error {
	if uint64(ms) < t.limit {
		return nil
	}
	return fmt.Errorf("generator: %s does not fit into %s, whose time goes from %s to %s", date(ms), t.kind, date(0),
		date(int64(t.limit-1)))
}

// Fits reports whether the id can carry the time of a number of the layout.
func (t *TextLayout) Fits(number uint64) bool { return uint64(t.time(number)) < t.limit }

// time is the start of the tick, Unix ms.
func (t *TextLayout) time(number uint64) int64 {
	l := &t.layout
	return l.Epoch + int64(number>>l.tickShift()&(1<<l.TimeBits-1))*l.Unit
}

// Make makes the text id of a number of the layout that Fits.
func (t *TextLayout) Make(number, random uint64) id.Run {
	l, ms := &t.layout, uint64(t.time(number))
	point := number
	if !l.WorkerLow { // it is not sequence, worker: make it so
		point = number<<l.WorkerBits | number>>l.workerShift()&(1<<l.WorkerBits-1)
	}
	rest := point<<(64-t.point) | random>>t.point // the first 64 bits behind the time
	switch t.kind {
	case UUID7:
		high := ms<<16 | 7<<12 | rest>>52
		low := 1<<63 | rest<<12>>2 | random&(1<<10-1)
		return id.TextRun(id.UUID, high, low)
	case ULID:
		return id.TextRun(id.ULID, ms<<16|rest>>48, rest<<16|random&(1<<16-1))
	default:
		seconds, ms := ms/1000, ms%1000
		return id.TextRun(id.ObjectID, seconds, ms<<54|rest>>10)
	}
}

// Decompose takes a text id apart, as id.Parse read it. It accepts every value, and cannot tell whether
// the id was made by Make.
func (t *TextLayout) Decompose(high, low uint64) Parts {
	var ms, rest uint64 // rest: the first 64 bits behind the time
	switch t.kind {
	case UUID7:
		ms, rest = high>>16, high<<52|low<<2>>12
	case ULID:
		ms, rest = high>>16, high<<48|low>>16
	default:
		ms, rest = high*1000+low>>54, low<<10
	}
	point := rest >> (64 - t.point)
	return Parts{
		Time:     time.UnixMilli(int64(ms)).UTC(),
		Worker:   point & t.layout.MaxWorker(),
		Sequence: point >> t.layout.WorkerBits,
	}
}

// UUID4 makes a UUID of RFC 9562, version 4, out of 122 of the 128 random bits.
func UUID4(a, b uint64) id.Run {
	return id.TextRun(id.UUID, a&^(0xf<<12)|4<<12, b&^(3<<62)|1<<63)
}
