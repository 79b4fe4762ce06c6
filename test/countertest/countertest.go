// Package countertest holds the tests that every store of sequences passes.
package countertest

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A Client is a daemon's or an operator's access to a store.
type Client interface {
	counter.Store
	counter.Admin
}

// Open opens a store. Each call returns another Client of the same records, as another process would have it. The
// test's cleanup closes it.
type Open func(t *testing.T) Client

// Run tests the stores that newOpen's results open. newOpen is called for each test, and makes an Open
// of records that do not exist yet.
func Run(t *testing.T, newOpen func(t *testing.T) Open) { RunAs(t, newOpen, Odd) }

// RunAs is Run with other definitions than Odd.
func RunAs(t *testing.T, newOpen func(t *testing.T) Open, definition func(name string) counter.Definition) {
	play(t, "stores", newOpen, definition)
	run(t, newOpen, definition)
}

// RunPlain tests stores whose sequences are all as counter.Sequence says, and which take no block back,
// retire nothing and keep no floor.
func RunPlain(t *testing.T, newOpen func(t *testing.T) Open) {
	run(t, newOpen, counter.Sequence)
}

// run runs what all stores have in common.
func run(t *testing.T, newOpen func(t *testing.T) Open, definition func(name string) counter.Definition) {
	play(t, "every", newOpen, definition)
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, newOpen(t), definition) })
}

var process = regexp.MustCompile(`\S+/\d+`)

// play plays a script of a daemon a and an operator b; PROCESS is this one.
func play(t *testing.T, name string, newOpen func(t *testing.T) Open, definition func(name string) counter.Definition) {
	script.Run(t, path(t, name),
		func(t *testing.T, play func(script.Do)) {
			s, open := NewStage(t), newOpen(t)
			s.New = definition
			b := open(t)
			s.Stores["a"], s.Stores["b"] = open(t), b
			if _, err := b.Behind(bg); errors.Is(err, counter.ErrNoRoll) && strings.HasSuffix(t.Name(), "behind") {
				t.Skip("does not apply to a store that knows of no daemons")
			}
			play(func(words []string) string {
				late := words[len(words)-1] == "late"
				said := s.Do(words)
				if late && strings.Contains(said, "[") { // each store has its words
					return "refused"
				}
				return process.ReplaceAllString(StoodStill(said), "PROCESS")
			})
		})
}

var bg = context.Background()

// Odd is a sequence of odd numbers.
func Odd(name string) counter.Definition {
	return counter.Definition{Name: name, Start: 1, Step: 2, Offset: 1, Max: 10_001}
}

// Several processes reserve at once: their blocks are disjoint, and together they leave nothing out.
func testConcurrent(t *testing.T, open Open, definition func(name string) counter.Definition) {
	d := definition("orders")
	d.Max = counter.MaxValue
	var granted Grants
	var wg sync.WaitGroup
	for range 3 {
		s := open(t)
		if _, err := s.Define(bg, d); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			wg.Go(func() {
				for i := range 20 {
					if err := granted.Add(s.Reserve(bg, "orders", uint64(1+i%7))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	granted.Check(t, d.Step, true)
}
