package sim

import (
	"fmt"
	"os"
	"testing"
)

// Of each kind of run. With KATSUBUSHI_SOAK=1 they are 1,000 simulated hours.
const (
	poolSeeds, poolSoakSeeds = 20, 6000
	poolMutantSeeds          = 1000
)

var poolRuns = []Config{
	{Store: PoolRestores}, {Store: PoolOutages}, {Store: PoolOutages, Weather: Bridged}, {Store: PoolClones},
	{Store: PoolClocks},
}

var soak = os.Getenv("KATSUBUSHI_SOAK") == "1"

// One lane issues nothing twice, whatever a store with a compare-and-set forgets.
func TestPool(t *testing.T) {
	for _, c := range poolRuns {
		t.Run(fmt.Sprint(c.Store, " in ", c.Weather), func(t *testing.T) {
			c.Minutes = minutes
			first, n := uint64(1), poolSeeds
			if underRace {
				n = 1
			}
			if soak {
				n = poolSoakSeeds
			}
			if slice := seedsToRun(t); slice[0] > 0 {
				first, n = slice[0], int(slice[1]-slice[0]+1)
			}
			runAll(t, c, first, n)
		})
	}
}

// noticed says whether a run shows that a rule is missing. Most mutants issue duplicates.
func noticed(c Config) (Report, bool) {
	r := Run(c)
	onlyLeases := c.Mutant == Deaf || c.Mutant == Thief || c.Mutant == Unaware
	return r, r.IDs.Duplicates() > 0 || r.Regrants > 0 || onlyLeases && c.Weather == Bridged && r.Err() != nil
}

// found are runs in which mutants were noticed, so that it does not take long to see it again. After a
// change of what is simulated they may be others: the test then fails and logs them.
var found = map[Mutant]Config{
	Deaf:    {Store: PoolOutages, Weather: Bridged, Seed: 1},
	Thief:   {Store: PoolOutages, Weather: Bridged, Seed: 5},
	Unaware: {Store: PoolOutages, Weather: Bridged, Seed: 1},
	"a draining lane does not look after the floor":            {Store: PoolRestores, Seed: 2},
	"a holder that was rolled back goes on":                    {Store: PoolRestores, Seed: 1},
	"a reservation has ticks":                                  {Store: PoolRestores, Seed: 4},
	"a successor starts at the present if the session is gone": {Store: PoolRestores, Seed: 1},
	"a window starts at the mark + 1":                          {Store: PoolRestores, Seed: 5},
	"a write goes over whichever connection there is":          {Store: PoolRestores, Seed: 54},
	"an epoch that only the watch saw is taken for known":      {Store: PoolRestores, Seed: 56},
	"an older request id is taken for a clone's":               {Store: PoolRestores, Seed: 7},
	"any raised floor is taken for a new one":                  {Store: PoolRestores, Seed: 606},
	"meta is not compared when a worker id is acquired":        {Store: PoolRestores, Seed: 105},
	"W counts from the answer":                                 {Store: PoolRestores, Seed: 59},
	"newcomers do not watch":                                   {Store: PoolRestores, Seed: 4},
	"presence is the fence":                                    {Store: PoolRestores, Seed: 2},
	"returners do not watch":                                   {Store: PoolRestores, Seed: 12},
	"the first reading is not judged":                          {Store: PoolRestores, Seed: 123},
	"the floor does not cover a lease":                         {Store: PoolRestores, Seed: 4},
	"the floor does not cover the own window":                  {Store: PoolRestores, Seed: 6},
	"the mark is lowered":                                      {Store: PoolRestores, Seed: 42},
	"the record is not compared":                               {Store: PoolRestores, Seed: 4},
	"the watch goes over two connections":                      {Store: PoolRestores, Seed: 11},
	"the watch is half a heartbeat":                            {Store: PoolRestores, Seed: 1},
	"versions survive a reconnection":                          {Store: PoolClones, Seed: 42},
}

// Each rule is needed: without it some seed fails. With KATSUBUSHI_SOAK=1 all seeds are tried from 1 on.
func TestEveryMutantOfThePoolIsFoundOut(t *testing.T) {
	skipUnderRace(t)
	for _, m := range PoolMutants() {
		t.Run(string(m), func(t *testing.T) {
			try := func(c Config) bool {
				c.Minutes, c.Mutant = minutes, m
				r, is := noticed(c)
				if is {
					t.Logf("%v in %v, %v", c.Store, c.Weather, r.Err())
				}
				return is
			}
			c, listed := found[m]
			switch {
			case soak:
			case !listed:
				t.Skip("no run is listed; KATSUBUSHI_SOAK=1 searches")
			case try(c):
				return
			}
			for seed := uint64(1); seed <= poolMutantSeeds; seed++ {
				for _, c := range poolRuns {
					if c.Seed = seed; try(c) {
						if !soak {
							t.Error("list this run: the listed one does not notice it any more")
						}
						return
					}
				}
			}
			t.Errorf("nothing is noticed in %d seeds", poolMutantSeeds)
		})
	}
}
