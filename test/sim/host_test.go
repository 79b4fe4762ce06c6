package sim

import "testing"

// What the ordinary test runs on one host; with KATSUBUSHI_SOAK=1 it is 200 times as much.
const hostSeeds, hostLives = 70, 40

func TestNoDuplicatesFromAStateFile(t *testing.T) {
	n := hostSeeds
	if underRace {
		n = 10
	}
	if soak {
		n *= 200
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
