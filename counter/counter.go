package counter

import (
	"context"
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// MaxValue is the largest value of any sequence; the smallest is 1. Clients in every language have a
// signed 64-bit integer.
const MaxValue = 1<<63 - 1

// Certain errors: the call changed nothing, and to repeat it is useless. Stores may wrap them with
// more words, which clients see. After any other error the call may have been carried out or not, so
// Reserve again: a block whose answer was lost is a gap.
var (
	// ErrUnknown: there is no record of this name. Only Define makes one. A record that was there
	// before must not be made again: it would grant the same values.
	ErrUnknown = errors.New("no such sequence in the counter store")
	// ErrEnded: every value up to Max was granted. It stays so.
	ErrEnded = errors.New("every value has been granted")
	// ErrRetired: an operator ended the sequence. It stays so.
	ErrRetired = errors.New("the sequence is retired")
	// ErrForeign: the record was copied from another machine, restored or wiped, so it does not say
	// which values are free. It stays so until Raise.
	ErrForeign = errors.New("the counter store is not the one that granted the last block")
	// ErrDamaged: there is a record of this name, and it is not as a Store writes it. The name counts as
	// taken: nothing is granted, and Define makes no other record. It stays so until Revive.
	ErrDamaged = errors.New("the record is damaged")
	// ErrUnusable: what is there in the place of a record must not be written over, and cannot be used: a record
	// of a later version, or no plain file. It stays so until an operator has put a record there.
	ErrUnusable = errors.New("the record cannot be used")
	// ErrStale: Return found a newer write than that of the block. Nothing was given back.
	ErrStale = errors.New("the record was written since")
	// ErrOrder: the Store elects nobody, and the definition has order=strict. Nothing was recorded.
	ErrOrder = errors.New("this counter store does not support order=strict")
	// ErrNode: another sequence of the layout has the node of Define's definition. Nothing was recorded.
	ErrNode = errors.New("the node is taken")
	// ErrDeposed: the call was made within a term of leadership (package leader), and that is over. It
	// stays so. Nothing was written.
	ErrDeposed = errors.New("this daemon no longer leads the sequence")
)

// ErrUnavailable: the Store cannot be reached, or takes no writes now. Later it may be: a daemon that
// starts meanwhile need not give up. It is not certain, see Certain.
var ErrUnavailable = errors.New("the counter store does not answer")

// Certain reports whether an error is one of the above. nil is not.
func Certain(err error) bool {
	for _, e := range []error{
		ErrUnknown, ErrEnded, ErrRetired, ErrForeign, ErrDamaged, ErrUnusable, ErrStale, ErrOrder, ErrNode,
		ErrDeposed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A Definition says which values a sequence has: those from Start to Max that are Offset modulo Step.
// It never changes after it was recorded. All numbers are 1 to MaxValue, but Batch may be 0.
type Definition struct {
	Name   string // 1 to 64 bytes; a Store must not trust it as the name of a file
	Start  uint64 // no value is smaller
	Step   uint64 // between two values
	Offset uint64 // 1 to Step; with Step 2, offset 1 has the odd values and offset 2 the even ones
	Max    uint64 // no value is larger
	Batch  uint64 // values in a block; 0 = as many as ten seconds need
	Strict bool   // one daemon at a time issues, so that values rise across daemons

	// Only for stores that may lose writes: how many values a second may be granted at most, which bounds
	// what can be lost; 0 to MaxRate, 0 = DefaultRate. Or, with RefuseLoss and Rate 0, there is no bound,
	// and after a possible loss the sequence waits for Raise. Other stores refuse both.
	Rate       uint64
	RefuseLoss bool

	Time Time // zero = its values are plain numbers
}

// A Time makes a sequence one of timestamps: its values are positions of a layout, tick and sequence as one number, and
// what clients get are ids with Node as the worker id. Such a sequence is Strict, from 1 to the layout's last position,
// and only a Timekeeper grants it anything.
type Time struct {
	Layout string        // by name; empty = there is none
	Node   uint64        // no other sequence of the layout has it
	Ahead  time.Duration // how far ahead of the clock positions are granted: MinAhead to MaxAhead, whole ms
}

// The limits of Time.Ahead.
const (
	MinAhead     = time.Second
	DefaultAhead = 3 * time.Second
	MaxAhead     = 5 * time.Second // leader.TTL
)

// Timed reports whether the values are positions.
func (d Definition) Timed() bool { return d.Time.Layout != "" }

// DefaultRate and MaxRate are in values a second.
const (
	DefaultRate = 10_000
	MaxRate     = 10_000_000
)

// Ceiling returns the rate that counts.
func (d Definition) Ceiling() uint64 {
	if d.Rate == 0 {
		return DefaultRate
	}
	return d.Rate
}

// Sequence returns the definition of all values from 1 to MaxValue.
func Sequence(name string) Definition {
	return Definition{Name: name, Start: 1, Step: 1, Offset: 1, Max: MaxValue}
}

// Check returns everything that is wrong with the numbers, which workerid.SettingErrors takes apart and whose
// fields are those of the Definition. It does not check the name.
func (d Definition) Check() error {
	var problems problem.List
	in := func(field string, v, least, most uint64) bool {
		if v >= least && v <= most {
			return true
		}
		problems.Add(field, "%d: %d to %d allowed", v, least, most)
		return false
	}
	start, end := in("Start", d.Start, 1, MaxValue), in("Max", d.Max, 1, MaxValue)
	step := in("Step", d.Step, 1, MaxValue)
	offset := step && in("Offset", d.Offset, 1, d.Step)
	in("Batch", d.Batch, 0, MaxBatch)
	in("Rate", d.Rate, 0, MaxRate)
	if d.RefuseLoss && d.Rate != 0 {
		problems.Add("Rate", "%d: there is none with RefuseLoss", d.Rate)
	}
	if t := d.Time; t != (Time{}) && (t.Layout == "" || t.Ahead < MinAhead || t.Ahead > MaxAhead ||
		t.Ahead%time.Millisecond != 0 || !d.Strict || d.Start != 1 || d.Step != 1 || d.Batch != 0) {
		problems.Add("Time", "%+v: no definition of timestamps", t)
	}
	switch {
	case !start || !end:
	case d.Start > d.Max:
		problems.Add("Start", "%d: above the largest value, %d", d.Start, d.Max)
	case offset && d.First() > d.Max:
		problems.Add("Max", "%d: the first value from %d on that is %d modulo %d is %d", d.Max, d.Start, d.Offset, d.Step,
			d.First())
	}
	return problems.Err()
}

// MaxBatch is the largest Batch. A crash loses up to two blocks.
const MaxBatch = 10_000_000

// Same reports whether two definitions have the same values in the same order. Batch may differ: it
// is how a daemon reserves, and changes no value.
func (d Definition) Same(other Definition) bool {
	d.Batch = other.Batch
	if d.Ceiling() == other.Ceiling() {
		d.Rate = other.Rate
	}
	return d == other
}

// First is the smallest value.
func (d Definition) First() uint64 { return d.Ceil(d.Start) }

// Last is the largest value.
func (d Definition) Last() uint64 { return d.First() + (d.Max-d.First())/d.Step*d.Step }

// Ceil returns the smallest value that is at least v, without regard to Max: up to MaxValue + Step.
// v is at most MaxValue.
func (d Definition) Ceil(v uint64) uint64 {
	v = max(v, d.Start)
	return v + (d.Offset%d.Step+d.Step-v%d.Step)%d.Step
}

// Count returns how many values there are from lo to Max. lo is a value.
func (d Definition) Count(lo uint64) uint64 {
	if lo > d.Max {
		return 0
	}
	return (d.Max-lo)/d.Step + 1
}

// A Block is a range of values that was granted to one daemon.
type Block struct {
	Lo, Hi uint64 // its first and its last value, both values of the sequence
	Token  string // names the write of the record that granted it
}

// A Store records sequences. Any goroutine may call its methods, several at once. They return soon
// after ctx has ended; then the call may still be carried out. Names are those of definitions.
type Store interface {
	// Define records a sequence, unless there is a record of that name, and returns the record. The
	// caller compares: a Store does not change a definition.
	Define(ctx context.Context, d Definition) (Record, error)
	// Reserve grants a block of at most n values, at least one; n is at least 1. The values lie above
	// every block that was granted before, except what Return gave back.
	Reserve(ctx context.Context, name string, n uint64) (Block, error)
	// Return gives the values from next to b.Hi back if b was the record's last write, or else returns
	// ErrStale. b is the last block that the caller got. next may lie before b.Lo if all values from
	// there on are the caller's. The caller must have stopped issuing them for good, and must not call
	// Return twice for one block.
	Return(ctx context.Context, name string, b Block, next uint64) error
	// ReturnAll is Return for up to MaxRests sequences, each once. The errors are those of the rests, in their order.
	ReturnAll(ctx context.Context, rests []Rest) []error
	// Changes returns all records if one was defined, raised or retired since the call that returned
	// since, also by another process, or no records otherwise. With since "" it returns them all.
	// Reserve and Return are no changes. It is called every second, so it must be cheap. A record that
	// cannot be used is among them, see Record.Fault; the error is about all of them.
	Changes(ctx context.Context, since string) (now string, records []Record, err error)
	// Close releases what the Store holds. It gives no block back.
	Close() error
}

// A Rest is what is left of a sequence's last block, see Store.Return.
type Rest struct {
	Name  string
	Block Block
	Next  uint64
}

// MaxRests is how many Rests one call takes. A transaction of etcd's has 128 comparisons: two each, and the
// fence's.
const MaxRests = 60

// Admin is what operators do with a Store, also while daemons use it. Errors are those of Store.
type Admin interface {
	// List returns all records by name. One that cannot be used is among them, see Record.Fault; the error
	// is about all of them.
	List(ctx context.Context) ([]Record, error)
	// Show returns one record. With ErrForeign it returns the record too, as it was found.
	Show(ctx context.Context, name string) (Record, error)
	// Define is Store's.
	Define(ctx context.Context, d Definition) (Record, error)
	// Raise makes atLeast the floor of a sequence: no smaller value will be granted. It never lowers
	// anything. It accepts a foreign record as this store's own. Daemons drop the smaller values that they
	// hold within about a second.
	Raise(ctx context.Context, name string, atLeast uint64) (Record, error)
	// Revive puts a record of d, with atLeast as its floor, in the place of one that is damaged. Only the
	// operator knows both. If the record is not damaged, it is an error, and nothing is changed.
	Revive(ctx context.Context, d Definition, atLeast uint64) (Record, error)
	// Retire ends a sequence for ever. Daemons stop issuing from it within about a second.
	Retire(ctx context.Context, name string) (Record, error)
	// Behind returns the daemons that have not said yet that they have learnt of the last Raise or Retire.
	// It is ErrNoRoll if the store does not know its daemons.
	Behind(ctx context.Context) ([]Daemon, error)
	Close() error
}

// A Lossy is an Admin that may lose what it has confirmed, in ways that it cannot know.
type Lossy interface {
	// NotPromised is called after Define, Raise and Retire. It says what may undo them, and what the
	// operator can do; empty = nothing.
	NotPromised(ctx context.Context) (string, error)
}
