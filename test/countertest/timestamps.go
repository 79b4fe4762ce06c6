package countertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// RunTimestamps tests a store that also keeps timestamps.
func RunTimestamps(t *testing.T, newOpen func(t *testing.T) Open) {
	play(t, "timestamps", newOpen, counter.Sequence)
	t.Run("a node has many creators", func(t *testing.T) { testRacingNodes(t, newOpen(t)) })
}

// Of many processes that define names with one node at the same moment, one succeeds.
func testRacingNodes(t *testing.T, open Open) {
	const creators, rounds = 4, 8
	var stores []counter.Store
	for range creators {
		stores = append(stores, open(t))
	}
	for round := range rounds {
		errs := make([]error, creators)
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				words := []string{fmt.Sprintf("r%d-%d", round, i), fmt.Sprint("node=", round)}
				_, errs[i] = s.Define(bg, NewStage(t).Definition(words))
			})
		}
		all.Wait()
		made := 0
		for _, err := range errs {
			switch {
			case err == nil:
				made++
			case !errors.Is(err, counter.ErrNode):
				t.Error(err)
			}
		}
		if made != 1 {
			t.Errorf("round %d: %d names have node %d", round, made, round)
		}
	}
}
