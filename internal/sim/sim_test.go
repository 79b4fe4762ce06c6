package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// What the ordinary test runs. KATSUBUSHI_SOAK=1 runs soakSeeds of soakMinutes instead, KATSUBUSHI_SEED=n that one alone.
const (
	seeds, minutes         = 60, 10
	soakSeeds, soakMinutes = 2000, 30
)

func TestNoDuplicates(t *testing.T) {
	first, n, length := uint64(1), seeds, minutes
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		n, length = soakSeeds, soakMinutes
	}
	if s := os.Getenv("KATSUBUSHI_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	}
	var faults, events, refused, requests int
	var ids, minutes uint64
	for _, weather := range []Weather{Storm, Bridged} {
		for seed := first; seed < first+uint64(n); seed++ {
			r := Run(Config{Seed: seed, Minutes: length, Weather: weather})
			if err := r.Err(); err != nil {
				t.Errorf("%v (run it alone with KATSUBUSHI_SEED=%d)", err, seed)
			}
			if err := r.IDs.Plant(); err != nil {
				t.Error(err)
			}
			faults, events, ids, minutes = faults+r.Faults, events+r.Events, ids+r.IDs.Len(), minutes+uint64(length)
			refused, requests = refused+r.Refused, requests+r.Requests
		}
	}
	t.Logf("%d runs, %.1f simulated hours, %d faults, %d events, %d requests of which %d refused: 0 duplicates of %d ids expected, and none stuck",
		2*n, float64(minutes)/60, faults, events, requests, refused, ids)
}

// All but one issue duplicates. That one makes everybody wait.
func TestEveryMutantIsFoundOut(t *testing.T) {
	for _, m := range Mutants() {
		t.Run(string(m), func(t *testing.T) {
			for seed := uint64(1); seed <= seeds; seed++ {
				r := Run(Config{Seed: seed, Minutes: minutes, Mutant: m})
				if r.IDs.Duplicates() > 0 || m == Uncapped && len(r.Stuck) > 0 {
					t.Log(r.Err())
					return
				}
			}
			t.Errorf("nothing is noticed in %d seeds", seeds)
		})
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
