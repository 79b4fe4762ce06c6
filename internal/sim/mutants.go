package sim

import "github.com/katsubushi/katsubushi/workerid/memstore"

// A Mutant is the design without one of its rules.
type Mutant string

// None is the design as it is.
const None Mutant = ""

// The mutants of the daemon's side, and one of the store's that is found out in another way than the rest.
const (
	Unfenced  Mutant = "the generator issues outside its window"
	Unsealed  Mutant = "the lease is released while the generator still issues"
	Rewinding Mutant = "the generator starts again when the clock goes back"
	Uncapped  Mutant = "windows reach further with every renewal"
)

// The store's mutants are memstore's.
func storeMutants() map[Mutant]memstore.Mutant {
	return map[Mutant]memstore.Mutant{
		"release deletes the record":        memstore.DeleteOnRelease,
		"a successor starts at the present": memstore.StartAtNow,
		"a lease is renewed whoever has it": memstore.RenewBlindly,
		"tokens are not compared":           memstore.IgnoreTokens,
		"extending may lower the mark":      memstore.LowerMark,
		Uncapped:                            memstore.Uncapped,
	}
}

// Mutants is all of them.
func Mutants() []Mutant {
	all := []Mutant{Unfenced, Unsealed, Rewinding}
	for m := range storeMutants() {
		all = append(all, m)
	}
	return all
}

func (m Mutant) ofStore() memstore.Mutant { return storeMutants()[m] }
