package kinds

import (
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Declared returns the definition of a sequence of which d is recorded.
func Declared(d counter.Definition) Definition { return Definition{Definition: d, Kind: Sequence} }

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
