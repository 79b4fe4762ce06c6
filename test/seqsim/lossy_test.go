package seqsim

import "testing"

const lossySteps = 400

func TestSequencesInAStoreThatLosesWrites(t *testing.T) {
	values, losses, taken := 0, 0, 0
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		w, err := RunLossy(seed, lossySteps, NoFault)
		if err != nil {
			t.Fatalf("-seed %d -seeds 1: %v", seed, err)
		}
		values, losses, taken = values+w.Values, losses+w.Losses, taken+w.Taken
	}
	if values < int(*seeds)*300 || losses < int(*seeds)*3 || taken < int(*seeds)/20 {
		t.Errorf("only %d values, %d losses and %d blocks taken back", values, losses, taken)
	}
	t.Logf("%d values, %d losses, %d blocks taken back", values, losses, taken)
}

// Each rule is needed: without it some seed fails.
func TestFaultsAreNoticed(t *testing.T) {
	for f := NoFault + 1; f < NumFaults; f++ {
		t.Run(f.String(), func(t *testing.T) {
			for seed := range uint64(5000) {
				if _, err := RunLossy(seed, lossySteps, f); err != nil {
					t.Logf("seed %d, %v", seed, err)
					return
				}
			}
			t.Error("survived")
		})
	}
}
