package kinds

import (
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
)

// Declared returns the definition of a name of which d is recorded.
func Declared(d counter.Definition) Definition {
	if d.Timed() {
		return Definition{Definition: d, Kind: Snowflake, Layout: d.Time.Layout}
	}
	return Definition{Definition: d, Kind: Sequence}
}

// IDLayout returns the layout of the ids of a sequence of timestamps.
func IDLayout(d counter.Definition) generator.Layout {
	l, _ := generator.ParseLayout(d.Time.Layout) // known, or nobody would have recorded it
	return l
}

// IDOf returns what clients get for a value of a sequence: of timestamps it is the id at a position.
func IDOf(d counter.Definition, value uint64) uint64 {
	if !d.Timed() {
		return value
	}
	return IDLayout(d).AtPosition(value, d.Time.Node)
}

// ValueOf returns the smallest value whose IDOf is at least an id.
func ValueOf(d counter.Definition, id uint64) uint64 {
	if !d.Timed() {
		return id
	}
	l := IDLayout(d)
	position := l.PositionOf(id)
	switch worker := l.Decompose(id).Worker; {
	case l.WorkerHigh && worker < d.Time.Node: // of another node's ids all are smaller, or none
		return d.Start
	case l.WorkerHigh && worker > d.Time.Node:
		return d.Max + 1
	}
	if !l.WorkerLow && l.Decompose(id).Worker != d.Time.Node { // another node's id: in that tick all, or none
		position &^= l.MaxSequence()
	}
	switch {
	case IDOf(d, position) >= id:
		return position
	case !l.WorkerLow:
		return position&^l.MaxSequence() + l.MaxSequence() + 1
	}
	return position + 1
}

// A DifferentError is returned for a definition that is not the one in the store.
type DifferentError struct {
	Recorded counter.Definition // in the store
	Given    Definition
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("the definition %q is not what is recorded, %q: a sequence never changes; give it another name, "+
		"or the definition that is recorded",
		e.Given, Declared(e.Recorded))
}

// Compare returns a *DifferentError unless a definition is that of a record. Batch may differ.
func Compare(given Definition, r counter.Record) error {
	if r.Same(given.Definition) {
		return nil
	}
	return &DifferentError{r.Definition, given}
}
