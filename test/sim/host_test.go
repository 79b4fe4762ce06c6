package sim

import (
	"os"
	"testing"
)

// What the ordinary test runs on one host; with KATSUBUSHI_SOAK=1 it is a hundred times as much.
const hostSeeds, hostLives = 150, 40

func TestNoDuplicatesFromAStateFile(t *testing.T) {
	n := hostSeeds
	if underRace {
		n = 10
	}
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		n *= 100
	}
	var ids uint64
	var faults, requests, refused int
	for seed := uint64(1); seed <= uint64(n); seed++ {
		r := RunHost(Config{Seed: seed, Minutes: hostLives})
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		if err := r.IDs.Plant(); err != nil {
			t.Error(err)
		}
		ids, faults, requests, refused = ids+r.IDs.Len(), faults+r.Faults, requests+r.Requests, refused+r.Refused
	}
	t.Logf("%d hosts, %d lives of a process, %d faults, %d requests of which %d refused: 0 duplicates of %d ids "+
		"expected, and none stuck",
		n, n*hostLives, faults, requests, refused, ids)
}

// All but one issue duplicates. That one also finds no whole copy of its record.
func TestEveryMutantOfAStateFileIsFoundOut(t *testing.T) {
	skipUnderRace(t)
	for _, m := range HostMutants() {
		t.Run(string(m), func(t *testing.T) {
			for seed := uint64(1); seed <= hostSeeds; seed++ {
				r := RunHost(Config{Seed: seed, Minutes: hostLives, Mutant: m})
				if r.IDs.Duplicates() > 0 || m == Unsynced && len(r.Stuck) > 0 {
					t.Log(r.Err())
					return
				}
			}
			t.Errorf("nothing is noticed in %d seeds", hostSeeds)
		})
	}
}
