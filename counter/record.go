package counter

import "fmt"

// A Record is what a Store keeps of a sequence. Its methods are the only ways to change it. Each
// needs a token that no write has had before, and either changes the record or returns an error and
// leaves it alone. A Store reads the record, calls one of them and writes the record, with no other
// write in between.
type Record struct {
	Definition
	Next    uint64 // the first free value; above Max when all are granted
	Floor   uint64 // what the last Raise said: no daemon may issue a smaller value. 0 = anything goes
	Retired bool   // no value will be granted
	Token   string // of the last write

	// Of timestamps: Term has all positions from Begin on that were granted; empty = none were.
	Begin uint64
	Term  string

	// Fault says why nothing can be granted from the record until an operator has raised it: ErrForeign; or
	// another error, mostly ErrDamaged, and then only the name is known. nil = there is no reason. It is not
	// recorded: List and Changes set it.
	Fault error
}

// Unread returns what stands for a record that cannot be read.
func Unread(name string, why error) Record {
	return Record{Definition: Definition{Name: name}, Fault: why}
}

// Readable reports whether more than the name is known.
func (r *Record) Readable() bool { return r.Step != 0 }

// Damaged returns the ErrDamaged of a record. where is its place in the store, which names the sequence.
func Damaged(name, where string, cause error) error {
	return fmt.Errorf("%w: %s: %w: put back what was there, or `katsubushi name raise %s AT_LEAST` "+
		"makes a new one, with AT_LEAST above every value that was issued", ErrDamaged, where, cause, name)
}

// Whole is the error of Revive for a record that is not damaged.
func Whole(name string) error {
	return fmt.Errorf("the record of sequence %s is not damaged", name)
}

// NewRecord returns the record of a sequence that has granted nothing. d must be correct.
func NewRecord(d Definition, token string) Record {
	return Record{Definition: d, Next: d.First(), Token: token}
}

// Reserve grants up to n values, at least one. The errors are ErrRetired and ErrEnded.
func (r *Record) Reserve(n uint64, token string) (Block, error) {
	left := r.Count(r.Next)
	switch {
	case r.Retired:
		return Block{}, ErrRetired
	case r.Timed():
		return Block{}, fmt.Errorf("%w: timestamps are granted by the clock", ErrOrder)
	case left == 0:
		return Block{}, ErrEnded
	}
	b := Block{Lo: r.Next, Hi: r.Next + (min(max(n, 1), left)-1)*r.Step, Token: token}
	r.Next, r.Token = b.Hi+r.Step, token
	return b, nil
}

// Return makes next the next value if b was the last write, or else returns ErrStale. Values below
// the floor are not given back: no daemon may issue them.
func (r *Record) Return(b Block, next uint64, token string) error {
	if b.Token != r.Token || b.Hi+r.Step != r.Next {
		return ErrStale
	}
	if next != r.Ceil(next) || next > b.Hi {
		return fmt.Errorf("%w: %d is no value up to %d", ErrStale, next, b.Hi)
	}
	r.Next, r.Token = max(next, r.Ceil(r.Floor)), token
	r.Begin, r.Term = 0, ""
	return nil
}

// Raise makes atLeast the floor, 1 to Max. Neither the floor nor the next value goes down.
func (r *Record) Raise(atLeast uint64, token string) error {
	switch {
	case r.Retired:
		return ErrRetired
	case atLeast < 1 || atLeast > r.Max:
		return fmt.Errorf("%d: the values of sequence %s are 1 to %d", atLeast, r.Name, r.Max)
	}
	r.Floor = max(r.Floor, atLeast)
	r.Next = max(r.Next, r.Ceil(atLeast))
	r.Token = token
	return nil
}

// Retire ends the sequence. To retire it again is no error.
func (r *Record) Retire(token string) {
	r.Retired, r.Token = true, token
}

// Check returns what is wrong with a record that was read from a store. A Store must not go on from it.
func (r *Record) Check() error {
	if r.Name == "" || r.Token == "" {
		return fmt.Errorf("sequence %q with token %q: not possible", r.Name, r.Token)
	}
	if err := r.Definition.Check(); err != nil {
		return err
	}
	if r.Next < r.First() || r.Next <= r.Max && r.Next != r.Ceil(r.Next) {
		return fmt.Errorf("the next value, %d, is none of the sequence", r.Next)
	}
	if r.Begin > r.Next {
		return fmt.Errorf("the first position of the term, %d, is above the next value, %d", r.Begin, r.Next)
	}
	if r.Floor > r.Next { // Raise and Return never leave it so
		return fmt.Errorf("the next value, %d, is below %d, the least that may be issued", r.Next, r.Floor)
	}
	return nil
}
