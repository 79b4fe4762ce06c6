package sim

import (
	"maps"
	"slices"
)

// A Mutant is the design without one of its rules.
type Mutant string

// None is the design as it is.
const None Mutant = ""

// The mutants of the daemon's side.
const (
	Unfenced  Mutant = "the generator issues outside its window"
	Rewinding Mutant = "the generator starts again when the clock goes back"
)

// PoolMutants are those of the rules of package pool, and of how daemons follow them.
func PoolMutants() []Mutant { return slices.Sorted(maps.Keys(poolMutants)) }
