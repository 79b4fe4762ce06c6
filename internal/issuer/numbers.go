package issuer

import (
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// numbers is what a Sequence issues from. Its blocks are of values, as the store counts them; what it issues, and Last,
// are what clients get. moment is that of the request, for what depends on the time.
type numbers interface {
	Take(moment int64, n int) (id.Run, error)
	Reserve(moment int64, n int) (id.Run, error)
	Append(lo, hi uint64) error
	Raise(atLeast uint64)
	Seal() (next, rest uint64)
	Has(n uint64) bool
	Low() bool // more is needed, though no client waits
	Left() uint64
	Last() uint64
	Issued() uint64
	Value(value uint64) uint64 // what clients get for a value
}

var _, _ numbers = plain{}, (*generator.Positions)(nil)

// plain are the values themselves, at any moment.
type plain struct{ *generator.Sequence }

func (p plain) Take(_ int64, n int) (id.Run, error)    { return p.Sequence.Take(n) }
func (p plain) Reserve(_ int64, n int) (id.Run, error) { return p.Sequence.Reserve(n) }
func (plain) Low() bool                                { return false }
func (plain) Value(value uint64) uint64                { return value }

// A Clock is what a sequence of timestamps needs to know of the time.
type Clock struct {
	Moment   func() int64  // CLOCK_BOOTTIME in ns, above 0
	Offset   *atomic.Int64 // see generator.PositionsConfig
	RunAhead time.Duration
}

// numbersOf makes the numbers of a definition, which have no block yet.
func numbersOf(d counter.Definition, c Clock, ring func()) numbers {
	if !d.Timed() {
		return plain{generator.NewSequence(d.Step, ring)}
	}
	return generator.NewPositions(generator.PositionsConfig{
		Layout: kinds.IDLayout(d), Node: d.Time.Node, RunAhead: c.RunAhead, Ahead: d.Time.Ahead, Moment: c.Moment,
		Offset: c.Offset, Ring: ring,
	})
}

// A row says which ids of a sequence are in a row.
type row struct {
	d      counter.Definition
	layout generator.Layout // of timestamps
	stride uint64
	most   int // ids in a row
}

func rowOf(d counter.Definition, runAhead time.Duration) row {
	if !d.Timed() {
		return row{d: d, stride: d.Step, most: id.MaxReserve}
	}
	l := kinds.IDLayout(d)
	return row{d, l, l.StrideOf(), int(min(l.InRow(runAhead), id.MaxReserve))}
}

// first returns the first of n ids in a row of which last is the last one; ok = false: there are no such ids.
func (r *row) first(last uint64, n int) (first uint64, ok bool) {
	first = last - uint64(n-1)*r.stride
	if !r.d.Timed() {
		return first, last <= r.d.Max && first <= last && r.d.Ceil(first) == first
	}
	from, to := r.layout.PositionOf(first), r.layout.PositionOf(last)
	return first, to <= r.d.Max && from+uint64(n-1) == to && kinds.IDOf(r.d, from) == first && kinds.IDOf(r.d, to) == last
}

func (r *row) batches() *Batches { return NewBatches(r.stride, r.most) }
