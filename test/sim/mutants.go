package sim

import "github.com/katsubushi/katsubushi/v3/test/redismodel"

// A Mutant is the design without one of its rules.
type Mutant string

// None is the design as it is.
const None Mutant = ""

// The mutants of the daemon's side.
const (
	Unfenced  Mutant = "the generator issues outside its window"
	Unsealed  Mutant = "the lease is released while the generator still issues"
	Rewinding Mutant = "the generator starts again when the clock goes back"
	OneOwner  Mutant = "the lanes of a daemon are one owner"
)

// RedisMutants are those of the daemon's side and of the scripts.
func RedisMutants() []Mutant {
	all := []Mutant{Unfenced, Unsealed, Rewinding, OneOwner}
	for _, m := range redismodel.Mutants() {
		all = append(all, Mutant(m.String()))
	}
	return all
}

func (m Mutant) ofRedis() redismodel.Mutant {
	for _, r := range redismodel.Mutants() {
		if r.String() == string(m) {
			return r
		}
	}
	return redismodel.Sound
}
