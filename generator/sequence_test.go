package generator

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A rack is a Sequence with a bell, and the number of values that the test got from it.
type rack struct {
	*Sequence
	rung   atomic.Int64
	issued uint64
}

func newRack(step uint64) *rack {
	r := &rack{}
	r.Sequence = NewSequence(step, func() { r.rung.Add(1) })
	return r
}

func (r *rack) append(t *testing.T, lo, hi uint64) {
	t.Helper()
	if err := r.Append(lo, hi); err != nil {
		t.Fatal(err)
	}
}

func values(run id.Run) (list []uint64) {
	for i := range run.N {
		list = append(list, run.First+uint64(i)*run.Stride)
	}
	return list
}

// TestSequences: what is taken and reserved of blocks, what a Seal gives back, and when the bell rings.
func TestSequences(t *testing.T) {
	steps.Run(t, "testdata/sequences.txt", func(t *testing.T) steps.Calls {
		r := newRack(1)
		told, err := "", error(nil)
		run := func(take func(int) (id.Run, error)) any {
			return func(n int) (string, error) {
				run, err := take(n)
				if err != nil {
					return "", err
				}
				r.issued += uint64(run.N)
				list := values(run)
				return fmt.Sprintf("%d: %d to %d", run.N, list[0], list[len(list)-1]), nil
			}
		}
		take, reserve := func(n int) (id.Run, error) { return r.Take(n) }, func(n int) (id.Run, error) { return r.Reserve(n) }
		return steps.Calls{
			"step":    func(step uint64) { r = newRack(step) },
			"append":  func(lo, hi uint64) error { return r.Append(lo, hi) },
			"take":    run(take),
			"reserve": run(reserve),
			"ones": func(n int) {
				for range n {
					_, err = r.Take(1)
				}
				r.issued += uint64(n)
			},
			"has":   func(n uint64) bool { return r.Has(n) },
			"raise": func(to uint64) { r.Raise(to) },
			"seal": func() string {
				next, rest := r.Seal()
				return fmt.Sprintf("%d from %d on", rest, next)
			},
			"": func() string {
				now := fmt.Sprintf("- %d left, last %d", r.Left(), r.Last())
				if r.Issued() != r.issued || err != nil {
					t.Errorf("%d issued, want %d; %v", r.Issued(), r.issued, err)
				}
				if n := r.rung.Swap(0); n > 0 {
					now += fmt.Sprintf(", rang %d times", n)
				}
				if now == told {
					return ""
				}
				told = now
				return now
			},
		}
	})
}

// What another goroutine may have done since a Take found the current block empty.
func TestTheCurrentBlockIsLeftOnlyWhenItIsUsedUpForGood(t *testing.T) {
	r := newRack(1)
	take := func(n int, first uint64) {
		t.Helper()
		if run, err := r.Take(n); err != nil || run.First != first {
			t.Errorf("%+v, %v, want %d", run, err, first)
		}
	}
	r.append(t, 1, 5)
	take(5, 1)
	b := r.current.Load()
	r.append(t, 6, 9)
	r.append(t, 21, 30)
	if err := r.advance(b); err != nil || r.current.Load() != b {
		t.Errorf("%v, and the current block begins at %d", err, r.current.Load().lo)
	}
	take(9, 6)
	if err := r.advance(b); err != nil || r.current.Load() == b || r.Last() != 9 {
		t.Errorf("%v, last %d", err, r.Last())
	}
	take(3, 21)
	b = r.current.Load()
	r.append(t, 41, 60)
	if run, err := r.Reserve(20); err != nil || run.First != 41 {
		t.Errorf("%+v, %v", run, err)
	}
	if taken, end := b.taken.Load(), b.end.Load(); taken != end { // another Take may still look at b
		t.Errorf("%d of %d are gone from the block that was passed over", taken, end)
	}
}

// Whatever takers, reservers, appends, raises and a seal do to each other: no value comes twice,
// none that was given back, none below a floor, each range is whole, and a value that was asked for
// after another had been answered is larger.
func TestRacingTakers(t *testing.T) {
	for seed := range uint64(20) {
		raceTakers(t, seed)
	}
}

func raceTakers(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	step := 1 + rnd.Uint64N(3)
	r := newRack(step)
	var answered, floor atomic.Uint64
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for g := range 4 {
		rnd := rand.New(rand.NewPCG(seed, uint64(g+1)))
		wg.Go(func() {
			for {
				n, before, least := 1+rnd.IntN(30), answered.Load(), floor.Load()
				take := r.Take
				if rnd.IntN(4) == 0 {
					take = r.Reserve
				}
				run, err := take(n)
				if err == ErrSealed {
					return
				}
				if err != nil {
					runtime.Gosched()
					continue
				}
				list := values(run)
				if list[0] <= before || list[0] < least {
					t.Errorf("seed %d: %d after %d had been answered, floor %d", seed, list[0], before, least)
				}
				for last := list[len(list)-1]; ; {
					if old := answered.Load(); old >= last || answered.CompareAndSwap(old, last) {
						break
					}
				}
				mu.Lock()
				for _, v := range list {
					if seen[v] {
						t.Errorf("seed %d: %d twice", seed, v)
					}
					seen[v] = true
				}
				mu.Unlock()
			}
		})
	}
	next, granted := uint64(1), map[uint64]bool{}
	for range 300 {
		if rnd.IntN(3) == 0 {
			next += step * rnd.Uint64N(20) // another daemon's block
		}
		hi := next + step*rnd.Uint64N(60)
		for v := next; v <= hi; v += step {
			granted[v] = true
		}
		if err := r.Append(next, hi); err != nil {
			t.Error(err)
		}
		if next = hi + step; rnd.IntN(20) == 0 {
			v := hi - rnd.Uint64N(40)%hi
			r.Raise(v)
			floor.Store(max(v, floor.Load()))
		}
		for rnd.IntN(3) > 0 && r.Left() > 50 {
			runtime.Gosched()
		}
	}
	back, rest := r.Seal()
	wg.Wait()
	for v := range seen {
		if !granted[v] || rest > 0 && v >= back {
			t.Errorf("seed %d: %d was issued; granted: %v; given back from %d on", seed, v, granted[v], back)
		}
	}
	if n := r.Issued(); n != uint64(len(seen)) {
		t.Errorf("seed %d: %d issued, want %d", seed, n, len(seen))
	}
	if rest > 0 && back+(rest-1)*step != next-step {
		t.Errorf("seed %d: %d values from %d on are left, and the last block ended at %d", seed, rest, back, next-step)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	r := newRack(2)
	r.append(t, 1, 1<<40+1)
	if n := testing.AllocsPerRun(1000, func() {
		r.Take(3)
		r.Reserve(3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
