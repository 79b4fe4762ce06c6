package names

import (
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// files returns settings for a new directory, and an operator's access to it.
func files(t *testing.T) (stores.Counters, stores.CounterStore) {
	t.Helper()
	c := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	admin, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	return c, admin
}

// record records sequences.
func record(t *testing.T, admin counter.Admin, all ...counter.Definition) {
	t.Helper()
	for _, def := range all {
		if _, err := admin.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
}

// Clients of two rooms on one directory: no value twice, and each client's values rise.
func TestTwoRoomsShareASequence(t *testing.T) {
	c, _ := files(t)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var clients sync.WaitGroup
	for range 2 {
		n := room(t, Config{Counters: c, MaxWait: patience, Definitions: "orders sequence start=5 step=5"})
		for range 4 {
			clients.Go(func() {
				for last := uint64(0); !t.Failed() && last < 20_000; {
					runs, err := n.Catalog.Batch(t.Context(), []byte("orders"), 50)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					for _, r := range runs {
						values := make([]uint64, r.N)
						r.Fill(values)
						for _, v := range values {
							if v <= last || v%5 != 0 || seen[v] {
								t.Errorf("%d after %d, seen before: %v", v, last, seen[v])
							}
							last, seen[v] = v, true
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	clients.Wait()
}

// TestScripts: testdata has what daemons serve and log, and what their settings declare.
func TestScripts(t *testing.T) {
	for _, name := range []string{"settings", "sequences", "leading"} {
		t.Run(name, func(t *testing.T) { play(t, "testdata/"+name+".txt") })
	}
}
