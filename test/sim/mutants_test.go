package sim

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"
)

// A family is the mutants of one kind of simulation.
type family struct {
	name    string
	mutants []Mutant
	seeds   uint64   // that are tried at most
	runs    []Config // of each seed
}

var families = []family{
	{"the scripts of Redis", RedisMutants(), 250,
		[]Config{{Store: Losing}, {Store: Keeping}, {Store: Losing, Weather: Bridged}}},
	{"a store that compares and sets", PoolMutants(), 1000, poolRuns},
}

//go:embed testdata/found.txt
var listed string

// found is a run that finds a mutant out, where that takes long: mutant, store, weather and seed. After a change of
// what is simulated the runs may be others: put in what the test logs.
var found = func() map[Mutant]Config {
	all := map[Mutant]Config{}
	for line := range strings.SplitSeq(strings.TrimSpace(listed), "\n") {
		var c Config
		f := strings.Split(line, " | ")
		for c.Store.String() != f[1] {
			c.Store++
		}
		for c.Weather.String() != f[2] {
			c.Weather++
		}
		c.Seed, _ = strconv.ParseUint(f[3], 10, 64)
		all[Mutant(f[0])] = c
	}
	return all
}()

// losesLeases are mutants that issue no duplicates. Leases are lost where nothing else lets them be.
var losesLeases = map[Mutant]bool{
	Deaf: true, Thief: true, Unaware: true, "incarnation without request id": true, "roll-back not noticed": true,
}

// Each rule is needed: without it some seed fails. With KATSUBUSHI_SOAK=1 all seeds are tried from 1 on.
func TestEveryMutantIsFoundOut(t *testing.T) {
	if underRace {
		t.Skip("run without the race detector")
	}
	for _, f := range families {
		for _, m := range f.mutants {
			t.Run(f.name+"/"+string(m), func(t *testing.T) {
				if c, is := found[m]; is && !soak && noticed(t, c, m) {
					return
				}
				for seed := uint64(1); seed <= f.seeds; seed++ {
					for _, c := range f.runs {
						if c.Seed = seed; noticed(t, c, m) {
							return
						}
					}
				}
				t.Errorf("nothing is noticed in %d seeds", f.seeds)
			})
		}
	}
}

// noticed says whether a run shows that a rule is missing. Most mutants issue duplicates.
func noticed(t *testing.T, c Config, m Mutant) bool {
	c.Mutant, c.Minutes = m, minutes
	r := Run(c)
	is := r.IDs.Duplicates() > 0 || r.Regrants > 0 || r.Misled > 0
	if is = is || losesLeases[m] && c.Weather == Bridged && r.Err() != nil; is {
		t.Logf("%v in %v, %v", c.Store, c.Weather, r.Err())
	}
	return is
}
