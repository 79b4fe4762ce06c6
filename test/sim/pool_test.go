package sim

import (
	"fmt"
	"os"
	"testing"
)

// Of each kind of run. With KATSUBUSHI_SOAK=1 they are 1,000 simulated hours.
const poolSeeds, poolSoakSeeds = 20, 6000

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
			runAll(t, c, poolSeeds, poolSoakSeeds)
		})
	}
}
