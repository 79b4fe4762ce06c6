package sim

import "testing"

// A family is the mutants of one kind of simulation.
type family struct {
	name    string
	mutants []Mutant
	seeds   uint64            // that are tried at most
	runs    []Config          // of each seed
	found   map[Mutant]Config // where it takes long to find one out, a run that does
}

// After a change of what is simulated the runs that are found may be others: put in what the test logs.
var families = []family{
	{"the scripts of Redis", RedisMutants(), 250,
		[]Config{{Store: Losing}, {Store: Keeping}, {Store: Losing, Weather: Bridged}},
		map[Mutant]Config{
			OneOwner:                            {Store: Losing, Seed: 122},
			Unsealed:                            {Store: Keeping, Seed: 9},
			"release deletes the record":        {Store: Keeping, Seed: 5},
			"successor starts at now":           {Store: Keeping, Seed: 22},
			"reclaim without prev > now + eps":  {Store: Losing, Seed: 11},
			"incarnation without replid":        {Store: Losing, Seed: 67},
			"mark lowered by extend":            {Store: Losing, Seed: 115},
			"release not checked":               {Store: Keeping, Seed: 5},
			"eps = 0":                           {Store: Losing, Seed: 114},
			"operator's release grants at once": {Store: Losing, Seed: 115},
		}},
	{"a store that compares and sets", PoolMutants(), 1000, poolRuns, map[Mutant]Config{
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
	}},
}

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
				if c, listed := f.found[m]; listed && !soak && noticed(t, c, m) {
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
