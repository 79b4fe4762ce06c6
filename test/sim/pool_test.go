package sim

import (
	"fmt"
	"os"
	"testing"
)

const (
	poolSeeds       = 15
	poolMutantSeeds = 250
)

var poolRuns = []Config{
	{Store: PoolRestores}, {Store: PoolOutages}, {Store: PoolOutages, Weather: Bridged}, {Store: PoolClones}, {Store: PoolClocks},
}

// One lane issues nothing twice, whatever a store with a compare-and-set forgets.
func TestPool(t *testing.T) {
	for _, c := range poolRuns {
		t.Run(fmt.Sprint(c.Store, " in ", c.Weather), func(t *testing.T) {
			c.Minutes = minutes
			runAll(t, c, 1, poolSeeds)
		})
	}
}

// All but one issue duplicates. That one loses leases.
func TestEveryMutantOfThePoolIsFoundOut(t *testing.T) {
	if os.Getenv("KATSUBUSHI_SOAK") == "" {
		t.Skip("it searches for minutes")
	}
	for _, m := range PoolMutants() {
		t.Run(string(m), func(t *testing.T) {
			for seed := uint64(1); seed <= poolMutantSeeds; seed++ {
				for _, c := range poolRuns {
					c.Seed, c.Minutes, c.Mutant = seed, minutes, m
					if r := Run(c); r.IDs.Duplicates() > 0 || r.Regrants > 0 || m == Deaf && c.Weather == Bridged && r.Refused > 0 {
						t.Log(c.Store, c.Weather, r.Err())
						return
					}
				}
			}
			t.Errorf("nothing is noticed in %d seeds", poolMutantSeeds)
		})
	}
}
