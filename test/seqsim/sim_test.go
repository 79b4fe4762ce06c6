package seqsim

import (
	"flag"
	"testing"
)

var (
	firstSeed = flag.Uint64("seed", 0, "first seed")
	seeds     = flag.Uint64("seeds", 2000, "number of seeds")
)

const steps = 600

func TestSequencesInASimulatedWorld(t *testing.T) {
	values := 0
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		w, err := Run(seed, steps, None)
		if err != nil {
			t.Fatalf("-seed %d -seeds 1: %v", seed, err)
		}
		values += w.Values
	}
	if values < int(*seeds)*100 {
		t.Errorf("only %d values were issued", values)
	}
	t.Logf("%d values", values)
}

// Each rule is needed: without it some seed fails.
func TestMutantsAreNoticed(t *testing.T) {
	for m := None + 1; m < NumMutants; m++ {
		t.Run(m.String(), func(t *testing.T) {
			for seed := range uint64(3000) {
				if _, err := Run(seed, steps, m); err != nil {
					t.Logf("seed %d, %v", seed, err)
					return
				}
			}
			t.Error("survived")
		})
	}
}

func TestASeedGivesOneRun(t *testing.T) {
	for seed := range uint64(20) {
		a, _ := Run(seed, steps, None)
		b, _ := Run(seed, steps, None)
		if a.Values != b.Values || a.writes != b.writes || a.records[0] != b.records[0] {
			t.Errorf("seed %d: %+v and %+v", seed, a.records, b.records)
		}
	}
}
