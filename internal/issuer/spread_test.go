package issuer

import (
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// TestSpread: goroutines begin with different lanes, and go on with others when theirs is used up.
func TestSpread(t *testing.T) {
	const lanes, each = 8, 3000
	const now = int64(1_800_000_000_000)
	is := New(Config{Lanes: lanes, Layout: generator.Katsubushi(), Now: func() int64 { return now }})
	for lane := range lanes {
		if err := is.Publish(lane, uint64(lane), now, now+100); err != nil {
			t.Fatal(err)
		}
	}
	s := is.Spread()
	var mu sync.Mutex
	seen, first := map[uint64]bool{}, map[uint64]bool{}
	var all, there sync.WaitGroup
	const goroutines = lanes * 4096 / each // they take nearly all that there is
	there.Add(goroutines)
	for range goroutines {
		all.Go(func() {
			there.Done()
			there.Wait() // all stacks are there at once
			for i := range each {
				run, err := s.Mint(id.At(now), 1, false)
				mu.Lock()
				if err != nil || seen[run.First] {
					t.Errorf("%d came twice, or %v", run.First, err)
				}
				if seen[run.First] = true; i == 0 {
					first[generator.Katsubushi().Decompose(run.First).Worker] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(first) < 3 {
		t.Errorf("%d goroutines began with %d lanes of %d", goroutines, len(first), lanes)
	}
}
