package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the ordinary test runs. KATSUBUSHI_SOAK=1 runs soakSeeds instead: 1,000 simulated hours of each kind.
// KATSUBUSHI_SEED=n runs that one alone, KATSUBUSHI_SEED=n-m these: so a long soak can be run in slices.
const (
	seeds, minutes = 20, 10
	soakSeeds      = 6000
)

var soak = os.Getenv("KATSUBUSHI_SOAK") == "1"

// runs are the kinds of runs.
var runs = []Config{{Faults: Restores}, {Faults: Outages}, {Faults: Outages, Weather: Bridged}, {Faults: Clones},
	{Faults: Clocks}}

// Nothing is issued twice, whatever a store with a compare-and-set forgets.
func TestPool(t *testing.T) {
	for _, c := range runs {
		t.Run(fmt.Sprint(c.Faults, " in ", c.Weather), func(t *testing.T) {
			c.Minutes = minutes
			runAll(t, c)
		})
	}
}

// seedsToRun is what KATSUBUSHI_SEED says, the first and the last, or zeros.
func seedsToRun(t *testing.T) (seeds [2]uint64) {
	s := os.Getenv("KATSUBUSHI_SEED")
	if s == "" {
		return seeds
	}
	from, to, more := strings.Cut(s, "-")
	if !more {
		to = from
	}
	for i, text := range []string{from, to} {
		n, err := strconv.ParseUint(text, 10, 32)
		if seeds[i] = n; err != nil || n == 0 || n < seeds[0] {
			t.Fatalf("KATSUBUSHI_SEED=%q is no seed, nor a range of seeds from 1 on", s)
		}
	}
	return seeds
}

func runAll(t *testing.T, c Config) {
	first, n := uint64(1), seeds
	if soak {
		n = soakSeeds
	}
	if underRace {
		n = 1
	}
	if slice := seedsToRun(t); slice[0] > 0 {
		first, n = slice[0], int(slice[1]-slice[0]+1)
	}
	var faults, events, refused, requests int
	var ids uint64
	var recovered []int64
	for c.Seed = first; c.Seed < first+uint64(n); c.Seed++ {
		r := Run(c)
		if err := r.Err(); err != nil {
			t.Errorf("%v (run it alone with KATSUBUSHI_SEED=%d)", err, c.Seed)
		}
		if err := r.IDs.Plant(); err != nil {
			t.Error(err)
		}
		faults, events, ids = faults+r.Happened, events+r.Events, ids+r.IDs.Len()
		refused, requests = refused+r.Refused, requests+r.Requests
		recovered = append(recovered, r.Recovered)
	}
	slices.Sort(recovered)
	half, most, all := recovered[n/2], recovered[9*n/10], recovered[n-1]
	t.Logf("%d runs, %.1f simulated hours, %d faults, %d events, %d requests of which %d refused: 0 duplicates of %d "+
		"ids expected, and none stuck. Half served again within %d ms, 9 of 10 within %d, all within %d",
		n, float64(n*c.Minutes)/60, faults, events, requests, refused, ids, half, most, all)
}

func TestARunIsReproducedByItsSeed(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		var runs []string
		for range 2 {
			r := Run(Config{Seed: seed, Minutes: 5})
			runs = append(runs, fmt.Sprint(r.Events, r.Happened, r.IDs.Len(), r.Requests, r.Refused, r.Stuck))
		}
		if runs[0] != runs[1] {
			t.Errorf("seed %d: %q", seed, runs)
		}
	}
}
