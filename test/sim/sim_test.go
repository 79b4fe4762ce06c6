package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the ordinary test runs. KATSUBUSHI_SOAK=1 runs soakSeeds of soakMinutes instead,
// KATSUBUSHI_SEED=n that one alone, KATSUBUSHI_SEED=n-m these: so a long soak can be run in slices.
const (
	seeds, minutes         = 20, 10
	soakSeeds, soakMinutes = 2000, 30
)

func TestNoDuplicates(t *testing.T) {
	length := minutes
	if soak {
		length = soakMinutes
	}
	for _, store := range []Store{Losing, Keeping} {
		for _, weather := range []Weather{Storm, Bridged} {
			t.Run(fmt.Sprint(store, " in ", weather), func(t *testing.T) {
				runAll(t, Config{Minutes: length, Store: store, Weather: weather}, seeds, soakSeeds)
			})
		}
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

// runAll runs quick seeds, or soaked ones with KATSUBUSHI_SOAK=1, or those of KATSUBUSHI_SEED.
func runAll(t *testing.T, c Config, quick, soaked int) {
	first, n := uint64(1), quick
	if soak {
		n = soaked
	}
	if underRace {
		n = 1
	}
	if slice := seedsToRun(t); slice[0] > 0 {
		first, n = slice[0], int(slice[1]-slice[0]+1)
	}
	var faults, events, refused, requests int
	var ids uint64
	for c.Seed = first; c.Seed < first+uint64(n); c.Seed++ {
		r := Run(c)
		if err := r.Err(); err != nil {
			t.Errorf("%v (run it alone with KATSUBUSHI_SEED=%d)", err, c.Seed)
		}
		if err := r.IDs.Plant(); err != nil {
			t.Error(err)
		}
		faults, events, ids = faults+r.Faults, events+r.Events, ids+r.IDs.Len()
		refused, requests = refused+r.Refused, requests+r.Requests
	}
	t.Logf("%d runs, %.1f simulated hours, %d faults, %d events, %d requests of which %d refused: 0 duplicates of %d "+
		"ids expected, and none stuck",
		n, float64(n*c.Minutes)/60, faults, events, requests, refused, ids)
}

// How long daemons stand still once the faults of a Redis that keeps everything are over. What they
// have to wait for is the floor of the last history, a lease and epsilon (12.5 s), and a lease more
// where the clock has to last first; not their own pauses between two questions.
func TestRecovery(t *testing.T) {
	if underRace {
		t.Skip("run without the race detector")
	}
	runs := 30
	if soak {
		runs = 100
	}
	var took []int64
	for seed := uint64(1); seed <= uint64(runs); seed++ {
		took = append(took, Run(Config{Seed: seed, Minutes: minutes, Store: Keeping}).Recovered)
	}
	slices.Sort(took)
	half, most, all := took[runs/2], took[9*runs/10], took[runs-1]
	t.Logf("half within %d ms, 9 of 10 within %d, all within %d", half, most, all)
	if half > lease+3000 || most > 2*lease || all > 3*lease {
		t.Errorf("half within %d ms, 9 of 10 within %d, all within %d", half, most, all)
	}
}

func TestARunIsReproducedByItsSeed(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		var runs []string
		for range 2 {
			r := Run(Config{Seed: seed, Minutes: 5})
			runs = append(runs, fmt.Sprint(r.Events, r.Faults, r.IDs.Len(), r.Requests, r.Refused, r.Stuck))
		}
		if runs[0] != runs[1] {
			t.Errorf("seed %d: %q", seed, runs)
		}
	}
}
