// Package countertest holds the tests that every store of sequences passes.
package countertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Open opens a Store and an Admin of the same records. Each call returns others, as other processes
// would have them. The test's cleanup closes them.
type Open func(t *testing.T) (counter.Store, counter.Admin)

// Run tests the stores that newOpen's results open. newOpen is called for each test, and makes an Open
// of records that do not exist yet.
func Run(t *testing.T, newOpen func(t *testing.T) Open) { RunAs(t, newOpen, Odd) }

// RunAs is Run with other definitions than Odd.
func RunAs(t *testing.T, newOpen func(t *testing.T) Open, definition func(name string) counter.Definition) {
	t.Run("Changes", func(t *testing.T) { testChanges(t, newOpen(t), definition) })
	t.Run("Behind", func(t *testing.T) { testBehind(t, newOpen(t), definition) })
	run(t, newOpen, definition, true)
}

// RunPlain tests stores whose sequences are all as counter.Sequence says, and which take no block back,
// retire nothing and keep no floor.
func RunPlain(t *testing.T, newOpen func(t *testing.T) Open) {
	run(t, newOpen, counter.Sequence, false)
}

// run runs what all stores have in common: returns tells whether Return gives blocks back, and floors
// are kept.
func run(t *testing.T, newOpen func(t *testing.T) Open, definition func(name string) counter.Definition, returns bool) {
	t.Run("Names", func(t *testing.T) { testNames(t, newOpen(t), definition) })
	t.Run("Context", func(t *testing.T) { testContext(t, newOpen(t), definition) })
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, newOpen(t), definition) })
	t.Run("Random", func(t *testing.T) { testRandom(t, newOpen(t), definition, returns) })
}

var bg = context.Background()

// Odd is a sequence of odd numbers.
func Odd(name string) counter.Definition {
	return counter.Definition{Name: name, Start: 1, Step: 2, Offset: 1, Max: 10_001}
}

func define(t *testing.T, s counter.Store, d counter.Definition) counter.Record {
	t.Helper()
	r, err := s.Define(bg, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(list []counter.Record) string {
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func testChanges(t *testing.T, open Open, definition func(name string) counter.Definition) {
	s, _ := open(t)
	other, admin := open(t)
	define(t, s, definition("orders"))
	since, records, err := s.Changes(bg, "")
	if err != nil || names(records) != "orders" {
		t.Fatalf("%q, %v", names(records), err)
	}
	quiet := func(when string) {
		t.Helper()
		now, records, err := s.Changes(bg, since)
		if err != nil || len(records) > 0 {
			t.Errorf("%s: %v, %v", when, records, err)
		}
		since = now
	}
	quiet("nothing was done")
	b, err := s.Reserve(bg, "orders", 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Return(bg, "orders", b, b.Lo); err != nil {
		t.Fatal(err)
	}
	quiet("a block came and went")
	for _, c := range []struct {
		name   string
		change func() error
		want   func(list []counter.Record) bool
	}{
		{"define", func() error {
			_, err := other.Define(bg, definition("items"))
			return err
		}, func(l []counter.Record) bool { return names(l) == "items orders" }},
		{"raise", func() error {
			_, err := admin.Raise(bg, "orders", 50)
			return err
		}, func(l []counter.Record) bool { return l[1].Floor == 50 && l[1].Next == 51 }},
		{"retire", func() error {
			_, err := admin.Retire(bg, "items")
			return err
		}, func(l []counter.Record) bool { return l[0].Retired && !l[1].Retired }},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		now, records, err := s.Changes(bg, since)
		if err != nil || len(records) != 2 && c.name != "define" || !c.want(records) {
			t.Fatalf("%s: %+v, %v", c.name, records, err)
		}
		since = now
		quiet("after " + c.name)
	}
}

// An operator learns which daemons have not heard of a change. A daemon has heard of what it was told when it asks
// again, and one that has ended is not waited for.
func testBehind(t *testing.T, open Open, definition func(name string) counter.Definition) {
	s, admin := open(t)
	define(t, s, definition("orders"))
	if _, err := admin.Behind(bg); errors.Is(err, counter.ErrNoRoll) {
		return
	}
	daemon, _ := open(t)
	since := ""
	behind := func(when string, polls, want int) {
		t.Helper()
		for range polls {
			now, _, err := daemon.Changes(bg, since)
			if err != nil {
				t.Fatal(err)
			}
			since = now
		}
		list, err := admin.Behind(bg)
		if err != nil || len(list) != want || want > 0 && (!strings.Contains(list[0].Name, "/") ||
			list[0].Silent > time.Minute) {
			t.Errorf("%s: %+v, %v; want %d", when, list, err, want)
		}
	}
	behind("without a daemon", 0, 0)
	behind("one that has just begun", 1, 1)
	behind("once it was told", 1, 0)
	for _, v := range []uint64{1001, 2001} {
		if _, err := admin.Raise(bg, "orders", v); err != nil {
			t.Fatal(err)
		}
		behind("after a raise", 0, 1)
		Reserve(t, daemon, 1, v)
		behind("a block does not confirm a raise", 0, 1)
		behind("while it learns of it", 1, 1)
		behind("once it has", 1, 0)
	}
	if _, err := admin.Raise(bg, "orders", 3001); err != nil {
		t.Fatal(err)
	}
	behind("after another raise", 0, 1)
	if err := daemon.Close(); err != nil {
		t.Error(err)
	}
	behind("one that has ended", 0, 0)
}

// Every name that a definition may have, and some that would be trouble as the name of a file.
func testNames(t *testing.T, open Open, definition func(name string) counter.Definition) {
	s, admin := open(t)
	list := []string{".", "..", "a", "A", "a.b", "{tag}:x", "-", "_other", "con", strings.Repeat("n", 64),
		strings.Repeat("N", 64), "x.tmp", ".lock"}
	for i, name := range list {
		define(t, s, definition(name))
		if b, err := s.Reserve(bg, name, uint64(i+1)); err != nil || b.Lo != 1 {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	again, _ := open(t)
	for i, name := range list {
		if b, err := again.Reserve(bg, name, 1); err != nil || b.Lo != 1+uint64(i+1)*definition(name).Step {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	slices.Sort(list)
	if all, err := admin.List(bg); err != nil || names(all) != strings.Join(list, " ") {
		t.Errorf("%s, %v; want %s", names(all), err, strings.Join(list, " "))
	}
}

func testContext(t *testing.T, open Open, definition func(name string) counter.Definition) {
	s, _ := open(t)
	define(t, s, definition("orders"))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if b, err := s.Reserve(ctx, "orders", 10); err == nil || counter.Certain(err) {
		t.Errorf("after the end of the context: %+v, %v", b, err)
	}
	b, err := s.Reserve(bg, "orders", 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Return(ctx, "orders", b, b.Lo); err == nil {
		t.Error("Return after the end of the context")
	}
}

// Several processes reserve at once: their blocks are disjoint, and together they leave nothing out.
func testConcurrent(t *testing.T, open Open, definition func(name string) counter.Definition) {
	d := definition("orders")
	d.Max = counter.MaxValue
	var mu sync.Mutex
	var blocks []counter.Block
	var wg sync.WaitGroup
	for range 3 {
		s, _ := open(t)
		define(t, s, d)
		for range 2 {
			wg.Go(func() {
				for i := range 20 {
					b, err := s.Reserve(bg, "orders", uint64(1+i%7))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					blocks = append(blocks, b)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	slices.SortFunc(blocks, func(a, b counter.Block) int { return int(int64(a.Lo) - int64(b.Lo)) })
	next, tokens := uint64(1), map[string]bool{}
	for _, b := range blocks {
		if b.Lo != next || tokens[b.Token] {
			t.Fatalf("a block of token %q begins at %d, want %d", b.Token, b.Lo, next)
		}
		next, tokens[b.Token] = b.Hi+d.Step, true
	}
}

// A store answers as counter.Record does, whatever it is asked and by whomever.
func testRandom(t *testing.T, open Open, definition func(name string) counter.Definition, returns bool) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	type process struct {
		counter.Store
		admin counter.Admin
	}
	var processes []process
	for range 2 {
		s, admin := open(t)
		processes = append(processes, process{s, admin})
	}
	d := definition("orders")
	if returns {
		d.Max = 1501 // which comes before the last steps
	}
	define(t, processes[0].Store, d)
	want := counter.NewRecord(d, "")
	type granted struct {
		counter.Block
		to process
	}
	var blocks []granted
	const steps = 200
	for i := range steps {
		p := processes[rnd.IntN(len(processes))]
		var got, expected error
		switch op := rnd.IntN(10); {
		case returns && i == steps-10:
			_, got = p.admin.Retire(bg, "orders")
			want.Retire("retired")
		case op < 5 || len(blocks) == 0:
			n := rnd.Uint64N(30)
			b, err := p.Reserve(bg, "orders", n)
			model, err2 := want.Reserve(n, b.Token)
			if got, expected = err, err2; b != model {
				t.Fatalf("seed %d: granted %+v, want %+v", seed, b, model)
			}
			if err == nil {
				blocks = append(blocks, granted{b, p})
			}
		case op < 8: // whoever got a block returns it
			b := blocks[max(0, len(blocks)-1-rnd.IntN(2))]
			switch rnd.IntN(8) {
			case 0:
				b.Token = blocks[0].Token
			case 1:
				b.Hi -= min(d.Step, b.Hi-b.Lo)
			}
			next := b.Lo + rnd.Uint64N(b.Hi-b.Lo+4)
			if got, expected = b.to.Return(bg, "orders", b.Block, next), counter.ErrStale; returns {
				expected = want.Return(b.Block, next, "returned")
			}
		case op < 9:
			v := rnd.Uint64N(want.Next + 20)
			_, got = p.admin.Raise(bg, "orders", v)
			expected = want.Raise(v, "raised")
		default:
			if s, admin := open(t); rnd.IntN(4) == 0 {
				processes[rnd.IntN(len(processes))] = process{s, admin}
			}
		}
		if kind(got) != kind(expected) || counter.Certain(got) != counter.Certain(expected) {
			t.Fatalf("seed %d, step %d: %v, want %v", seed, i, got, expected)
		}
		r, err := p.admin.Show(bg, "orders")
		if err != nil || r.Definition != d || r.Next != want.Next || returns && r.Floor != want.Floor ||
			r.Retired != want.Retired {
			t.Fatalf("seed %d, step %d: %+v, %v; want %+v", seed, i, r, err, want)
		}
	}
}

// kind is which of the errors of counter.Record one is, and another error is true.
func kind(err error) any {
	for _, known := range []error{counter.ErrStale, counter.ErrEnded, counter.ErrRetired} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err != nil
}
