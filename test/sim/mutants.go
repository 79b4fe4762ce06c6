package sim

import (
	"slices"

	"github.com/katsubushi/katsubushi/v3/test/memstore"
	"github.com/katsubushi/katsubushi/v3/test/redismodel"
)

// A Mutant is the design without one of its rules.
type Mutant string

// None is the design as it is.
const None Mutant = ""

// The mutants of the daemon's side, and one of the store's that is found out in another way than
// the rest.
const (
	Unfenced  Mutant = "the generator issues outside its window"
	Unsealed  Mutant = "the lease is released while the generator still issues"
	Rewinding Mutant = "the generator starts again when the clock goes back"
	OneOwner  Mutant = "the lanes of a daemon are one owner"
	Uncapped  Mutant = "windows reach further with every renewal"
)

func memoryMutants() map[Mutant]memstore.Mutant {
	return map[Mutant]memstore.Mutant{
		"release deletes the record":        memstore.DeleteOnRelease,
		"a successor starts at the present": memstore.StartAtNow,
		"a lease is renewed whoever has it": memstore.RenewBlindly,
		"request ids are not compared":      memstore.IgnoreRequestIDs,
		"extending may lower the mark":      memstore.LowerMark,
		Uncapped:                            memstore.Uncapped,
	}
}

// Mutants is all of them, of the daemon's side and of the store in memory.
func Mutants() []Mutant {
	all := []Mutant{Unfenced, Unsealed, Rewinding, OneOwner}
	for m := range memoryMutants() {
		all = append(all, m)
	}
	slices.Sort(all)
	return all
}

// RedisMutants are those of the scripts.
func RedisMutants() []Mutant {
	var all []Mutant
	for _, m := range redismodel.Mutants() {
		all = append(all, Mutant(m.String()))
	}
	return all
}

func (m Mutant) ofMemory() memstore.Mutant { return memoryMutants()[m] }

func (m Mutant) ofRedis() redismodel.Mutant {
	for _, r := range redismodel.Mutants() {
		if r.String() == string(m) {
			return r
		}
	}
	return redismodel.Sound
}
