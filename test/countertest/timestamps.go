package countertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// RunTimestamps tests a store that also keeps timestamps.
func RunTimestamps(t *testing.T, newOpen func(t *testing.T) Open) {
	t.Run("a node is taken", func(t *testing.T) { testNodes(t, newOpen(t)) })
	t.Run("a node has many creators", func(t *testing.T) { testRacingNodes(t, newOpen(t)) })
}

func timestamps(name, layout string, node uint64) counter.Definition {
	return counter.Definition{Name: name, Start: 1, Step: 1, Offset: 1, Max: 1 << 53, Strict: true,
		Time: counter.Time{Layout: layout, Node: node, Ahead: counter.DefaultAhead}}
}

// Two names of one layout have two nodes.
func testNodes(t *testing.T, open Open) {
	s, _ := open(t)
	for _, c := range []struct {
		counter.Definition
		taken bool
	}{
		{timestamps("a", "katsubushi", 5), false}, {timestamps("a", "katsubushi", 5), false},
		{timestamps("b", "katsubushi", 5), true}, {timestamps("b", "twitter", 5), false},
		{timestamps("c", "katsubushi", 6), false},
	} {
		r, err := s.Define(context.Background(), c.Definition)
		if errors.Is(err, counter.ErrNode) != c.taken || !c.taken && (err != nil || r.Definition != c.Definition) {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
}

// Of many processes that define names with one node at the same moment, one succeeds.
func testRacingNodes(t *testing.T, open Open) {
	const creators, rounds = 4, 8
	var stores []counter.Store
	for range creators {
		s, _ := open(t)
		stores = append(stores, s)
	}
	for round := range rounds {
		errs := make([]error, creators)
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				name := fmt.Sprintf("r%d-%d", round, i)
				_, errs[i] = s.Define(context.Background(), timestamps(name, "katsubushi", uint64(round)))
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
