// Package line has the rules of sequences in a store that may lose writes which it has confirmed, as
// Redis does when it fails over or restarts. It does no I/O, so that a simulation can lose, delay and
// repeat everything.
//
// # The line
//
// A counter has no clock, so no reader can tell how far a record had got that was lost. Therefore each
// sequence has a rate ceiling: at a moment t of the store's clock, only values below line(t) may have
// been granted, and
//
//	line(t) = First + Step × (Base + Rate × (t − Created + Lead))
//
// After a loss, all that can have been granted lies below the line of that moment. Five rules follow:
//
//   - R1: a grant lies below line(now).
//   - R2: the daemon that first meets another history (a server that has restarted, or was promoted) records
//     line(now + Epsilon) as the next value. The next grant comes when the line has passed it.
//   - R3: if two servers may be masters at once, a grant counts only when all replicas have it.
//   - R4: nothing is granted before the definition is where a loss cannot take it (Safe). Created, Rate
//     and Base are then the same whatever is lost.
//   - R5: Raise lifts the line itself, by Base. So it is like a definition, and must be safe too.
//
// The guarantee: no two blocks share a value, if the clocks of two servers that follow each other differ
// by no more than Epsilon, and masters that serve at once are covered by R3. Not promised: anything
// about a record that was lost after it was safe and was defined again; Define says when that may be.
package line

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// What a new record has.
const (
	Lead    = time.Minute     // how far ahead of the clock values may be granted
	MaxSkew = 2 * time.Second // between the store's clock and that of its caller
	Epsilon = 2*MaxSkew + time.Second
)

// years is for how long the values up to Max must last at the full rate.
const years = 10

// Errors besides those of package counter. After each of them nothing was granted, and to retry helps.
var (
	ErrCeiling = errors.New("the rate ceiling of the sequence is reached")
	ErrNotSafe = errors.New("the definition or raise is not yet safe from a loss")
)

// A Moment is what the server said of itself during a call.
type Moment struct {
	Now     int64  // its clock, Unix ms
	History string // names the server and what it replicates; another one if it may have forgotten anything
}

// A Record is what the store keeps of a sequence.
type Record struct {
	counter.Record
	Created int64  // Unix ms of the store's clock
	Seen    int64  // the furthest that the store's clock has been, Unix ms
	Lead    int64  // ms
	Epsilon int64  // ms
	Base    uint64 // by how many values operators have raised the line
	History string // in which Next was found to be right
	Safe    bool   // definition and Base are where a loss cannot take them
	Foreign bool   // nothing is granted until Raise
}

// Check returns why a sequence cannot be kept here, or nil.
func Check(d counter.Definition) error {
	if err := d.Check(); err != nil || d.RefuseLoss {
		return err
	}
	need := uint64(d.Ceiling()) * years * 365 * 24 * 3600
	if d.Count(d.First()) < need {
		last := fmt.Sprint("more than ", uint64(counter.MaxValue))
		if hi, lo := bits.Mul64(need-1, d.Step); hi == 0 && lo <= counter.MaxValue-d.First() {
			last = fmt.Sprint(d.First() + lo)
		}
		return fmt.Errorf("max=%d: after a loss the sequence goes on above all that %d values a second can have used, so "+
			"for %d years it must be %s; "+
			"a smaller rate= needs less, and on-loss=refuse needs nothing", d.Max, d.Ceiling(), years, last)
	}
	return nil
}

// New returns the record of a sequence that has granted nothing. It is not safe yet. foreign: there may
// have been one before, see Define of package redis.
func New(d counter.Definition, m Moment, foreign bool, token string) Record {
	return Record{Record: counter.NewRecord(d, token), Created: m.Now, Seen: m.Now, Lead: Lead.Milliseconds(),
		Epsilon: Epsilon.Milliseconds(), History: m.History, Foreign: foreign}
}

// under returns how many values, from the first one on, lie below the line at t.
func (r *Record) under(t int64) uint64 {
	ms := uint64(max(t-r.Created+r.Lead, 0))
	hi, lo := bits.Mul64(r.Ceiling(), ms)
	if hi >= 1000 {
		return math.MaxUint64
	}
	n, _ := bits.Div64(hi, lo, 1000)
	return satAdd(r.Base, n)
}

func satAdd(a, b uint64) uint64 {
	if n, carry := bits.Add64(a, b, 0); carry == 0 {
		return n
	}
	return math.MaxUint64
}

// index returns how many values lie below v, which is a value.
func (r *Record) index(v uint64) uint64 { return (v - r.First()) / r.Step }

// value is the inverse of index; behind Max for all that lie there.
func (r *Record) value(i uint64) uint64 {
	if n := r.Count(r.First()); i >= n {
		return r.Last() + r.Step
	}
	return r.First() + i*r.Step
}

// now is the moment's clock. It never goes back in the life of a record.
func (r *Record) now(m Moment) int64 { return max(m.Now, r.Seen) }

// Adopt notices that something may have been forgotten (R2). It reports whether it changed the record,
// which must then be written.
func (r *Record) Adopt(m Moment) bool {
	if r.History == m.History || r.Foreign || r.RefuseLoss || r.Retired {
		return false
	}
	now := r.now(m)
	r.Next = max(r.Next, r.value(r.under(now+r.Epsilon)))
	r.History, r.Seen = m.History, now
	return true
}

// Usable returns why nothing may be granted from the record, whatever the rate, or nil.
func (r *Record) Usable(m Moment) error {
	switch {
	case r.Retired:
		return counter.ErrRetired
	case r.Foreign:
		return fmt.Errorf("%w: sequence %s was defined when Redis might have forgotten one of that name: "+
			"`katsubushi name raise %s AT_LEAST`, above every value that was issued, or %d if there was none",
			counter.ErrForeign, r.Name, r.Name, r.First())
	case r.RefuseLoss && r.History != m.History:
		return fmt.Errorf("%w: Redis has restarted or failed over and may have forgotten grants of sequence %s, which has "+
			"on-loss=refuse: "+
			"`katsubushi name raise %s AT_LEAST`, above every value that was issued", counter.ErrForeign, r.Name, r.Name)
	case !r.Safe:
		return ErrNotSafe
	}
	return nil
}

// Reserve grants up to n values below the line (R1). It changes nothing if it returns an error.
func (r *Record) Reserve(m Moment, n uint64, token string) (counter.Block, error) {
	if err := r.Usable(m); err != nil {
		return counter.Block{}, err
	}
	now := r.now(m)
	if !r.RefuseLoss && r.Next <= r.Max {
		used, under := r.index(r.Next), r.under(now)
		if used >= under {
			return counter.Block{},
				fmt.Errorf("%w: %d values a second; the next one comes in %v", ErrCeiling, r.Ceiling(), r.wait(used-under+1))
		}
		n = min(max(n, 1), under-used)
	}
	b, err := r.Record.Reserve(n, token)
	if err == nil {
		r.Seen = now
	}
	return b, err
}

// wait returns how long the line needs for n values.
func (r *Record) wait(n uint64) time.Duration {
	seconds := float64(n) / float64(r.Ceiling())
	return time.Duration(min(seconds, 1e9) * float64(time.Second)).Round(time.Millisecond)
}

// Return gives values back, unless anything may have been forgotten since the grant.
func (r *Record) Return(m Moment, b counter.Block, next uint64, token string) error {
	if r.History != m.History || r.Foreign {
		return fmt.Errorf("%w, perhaps: Redis has restarted or failed over", counter.ErrStale)
	}
	return r.Record.Return(b, next, token)
}

// Raise makes atLeast the floor, and lifts the line there (R5). It makes a foreign record usable. What it
// says is not safe yet.
func (r *Record) Raise(m Moment, atLeast uint64, token string) error {
	raised := *r
	raised.Adopt(m)
	if err := raised.Record.Raise(atLeast, token); err != nil {
		return err
	}
	raised.Foreign, raised.Safe, raised.History, raised.Seen = false, false, m.History, raised.now(m)
	if raised.Next <= raised.Max { // the line without its lead is lifted to the next value
		if used, under := raised.index(raised.Next), raised.under(raised.Seen-raised.Lead); used > under {
			raised.Base = satAdd(raised.Base, used-under)
		}
	}
	*r = raised
	return nil
}
