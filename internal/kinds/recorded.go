package kinds

import (
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Recorded returns what is recorded of the definition of a sequence.
func (d Definition) Recorded() counter.Definition {
	return counter.Definition{Name: d.Name, Start: d.Start, Step: d.Step, Offset: d.Offset, Max: d.Max, Batch: d.Batch,
		Strict: d.Strict, Rate: d.Rate, RefuseLoss: d.RefuseLoss}
}

// Declared returns the definition that Recorded made d of.
func Declared(d counter.Definition) Definition {
	return Definition{Name: d.Name, Kind: Sequence, Start: d.Start, Step: d.Step, Offset: d.Offset, Max: d.Max,
		Batch: d.Batch, Strict: d.Strict, Rate: d.Rate, RefuseLoss: d.RefuseLoss}
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
	if r.Same(given.Recorded()) {
		return nil
	}
	return &DifferentError{r.Definition, given}
}
