package sim

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/found.txt
var listed string

// found is a run that finds a mutant out, where that takes long: mutant, faults, weather and seed. After a change of
// what is simulated the runs may be others: put in what the test logs.
var found = func() map[Mutant]Config {
	all := map[Mutant]Config{}
	for line := range strings.SplitSeq(strings.TrimSpace(listed), "\n") {
		var c Config
		f := strings.Split(line, " | ")
		for c.Faults.String() != f[1] {
			c.Faults++
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
var losesLeases = map[Mutant]bool{Deaf: true, Thief: true, Unaware: true}

// Each rule is needed: without it some seed fails. With KATSUBUSHI_SOAK=1 all seeds are tried from 1 on.
func TestEveryMutantIsFoundOut(t *testing.T) {
	if underRace {
		t.Skip("run without the race detector")
	}
	for _, m := range slices.Concat([]Mutant{Unfenced, Rewinding}, PoolMutants()) {
		t.Run(string(m), func(t *testing.T) {
			if c, is := found[m]; is && !soak && noticed(t, c, m) {
				return
			}
			const seeds = 1000
			for seed := uint64(1); seed <= seeds; seed++ {
				for _, c := range runs {
					if c.Seed = seed; noticed(t, c, m) {
						return
					}
				}
			}
			t.Errorf("nothing is noticed in %d seeds", seeds)
		})
	}
}

// noticed says whether a run shows that a rule is missing. Most mutants issue duplicates.
func noticed(t *testing.T, c Config, m Mutant) bool {
	c.Mutant, c.Minutes = m, minutes
	r := Run(c)
	is := r.IDs.Duplicates() > 0 || r.Regrants > 0
	if is = is || losesLeases[m] && c.Weather == Bridged && r.Err() != nil; is {
		t.Logf("%v in %v, %v", c.Faults, c.Weather, r.Err())
	}
	return is
}
