package generator

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
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

// want takes n values and compares the ends of the run; first 0 means that there are none.
func (r *rack) want(t *testing.T, n int, first, last uint64) {
	t.Helper()
	run, err := r.Take(n)
	r.compare(t, run, err, first, last)
}

func (r *rack) wantReserved(t *testing.T, n int, first, last uint64) {
	t.Helper()
	run, err := r.Reserve(n)
	r.compare(t, run, err, first, last)
	if err == nil && run.N != n {
		t.Errorf("%d values reserved, not %d", run.N, n)
	}
}

func (r *rack) compare(t *testing.T, run id.Run, err error, first, last uint64) {
	t.Helper()
	if first == 0 {
		if err != ErrEmpty {
			t.Errorf("%+v, %v, want ErrEmpty", run, err)
		}
		return
	}
	got := values(run)
	if err != nil || got[0] != first || got[len(got)-1] != last {
		t.Errorf("%v, %v, want %d to %d", got, err, first, last)
	}
	if r.issued += uint64(run.N); r.Issued() != r.issued {
		t.Errorf("after %v: %d issued, want %d", got, r.Issued(), r.issued)
	}
}

func TestASequenceIssuesItsBlocksInOrder(t *testing.T) {
	r := newRack(3)
	r.want(t, 1, 0, 0)
	r.append(t, 2, 11) // 2 5 8 11
	r.want(t, 0, 2, 2)
	r.want(t, 2, 5, 8)
	r.append(t, 32, 38) // 32 35 38: not next to the first
	r.want(t, 9, 11, 11)
	r.want(t, 2, 32, 35)
	if l, last := r.Left(), r.Last(); l != 1 || last != 35 {
		t.Errorf("%d left, last %d", l, last)
	}
	r.append(t, 41, 44) // next to it: one run may cross the border
	r.want(t, 9, 38, 44)
	r.want(t, 1, 0, 0)
	r.append(t, 47, 47) // next to it, and it was empty already
	r.want(t, 9, 47, 47)
	for _, b := range [][2]uint64{{47, 47}, {44, 50}, {2, 2}} {
		if err := r.Append(b[0], b[1]); err != ErrLate {
			t.Errorf("block %v: %v", b, err)
		}
	}
	for _, b := range [][2]uint64{{50, 47}, {50, 51}, {0, 99}, {1<<63 + 2, 1<<63 + 2}} {
		if err := r.Append(b[0], b[1]); err == nil || errors.Is(err, ErrLate) {
			t.Errorf("block %v: %v", b, err)
		}
	}
	r.append(t, 1<<63-1-3, 1<<63-1)
	r.want(t, 9, 1<<63-1-3, 1<<63-1)
	r.want(t, 1, 0, 0)
}

func TestReserveIsWholeOrNothing(t *testing.T) {
	r := newRack(1)
	r.append(t, 1, 10)
	r.want(t, 1, 1, 1)
	r.wantReserved(t, 10, 0, 0)
	r.wantReserved(t, 3, 2, 4)
	r.append(t, 11, 13) // next to it: nothing is lost
	r.wantReserved(t, 8, 5, 12)
	r.append(t, 21, 25)
	r.append(t, 31, 40)
	for n, want := range map[uint64]bool{1: true, 10: true, 11: false} {
		if got := r.Has(n); got != want {
			t.Errorf("Has(%d) is %v", n, got)
		}
	}
	r.wantReserved(t, 11, 0, 0) // in no block; nothing is lost by asking
	r.want(t, 1, 13, 13)
	r.want(t, 1, 21, 21)
	r.wantReserved(t, 5, 31, 35) // 22 to 25 are lost
	r.want(t, 1, 36, 36)
	if l := r.Left(); l != 4 || !r.Has(4) || r.Has(5) {
		t.Errorf("%d left", l)
	}
}

func TestRaisePassesOverSmallerValues(t *testing.T) {
	r := newRack(10)
	r.append(t, 1, 91)
	r.append(t, 201, 291)
	for _, c := range []struct{ to, first uint64 }{{0, 1}, {11, 11}, {12, 21}, {5, 31}, {95, 201}, {211, 211},
		{211, 221}} {
		r.Raise(c.to)
		r.want(t, 1, c.first, c.first)
	}
	r.Raise(405)
	r.want(t, 1, 0, 0)
	if l := r.Left(); l != 0 {
		t.Errorf("%d left", l)
	}
	r.append(t, 301, 421) // next to the last, most of it below the floor
	r.wantReserved(t, 2, 411, 421)
	r.Raise(1000)
	r.Raise(5)
	r.append(t, 501, 591) // all of it
	r.append(t, 951, 1011)
	r.want(t, 9, 1001, 1011)
	if n := r.rung.Load(); n < 10 {
		t.Errorf("rang %d times for ten raises", n)
	}
}

func TestSealSaysWhatWasNotIssued(t *testing.T) {
	for _, c := range []struct {
		name       string
		set        func(r *rack)
		next, rest uint64
	}{
		{"nothing", func(r *rack) {}, 0, 0},
		{"unused", func(r *rack) { r.append(t, 1, 9) }, 1, 5},
		{"used in part", func(r *rack) {
			r.append(t, 1, 9)
			r.Take(2)
		}, 5, 3},
		{"used up", func(r *rack) {
			r.append(t, 1, 9)
			r.Take(5)
		}, 0, 0},
		{"next to each other", func(r *rack) {
			r.append(t, 1, 9)
			r.append(t, 11, 19)
			r.Take(2)
		}, 5, 8},
		{"apart", func(r *rack) {
			r.append(t, 1, 9)
			r.append(t, 21, 29)
			r.Take(2)
		}, 21, 5},
		{"raised", func(r *rack) {
			r.append(t, 1, 9)
			r.Raise(6)
		}, 7, 2},
		{"raised above it", func(r *rack) {
			r.append(t, 1, 9)
			r.Raise(600)
		}, 0, 0},
	} {
		r := newRack(2)
		c.set(r)
		for range 2 {
			if next, rest := r.Seal(); next != c.next || rest != c.rest {
				t.Errorf("%s: %d from %d on, want %d from %d on", c.name, rest, next, c.rest, c.next)
			}
		}
		r.Raise(3)
		_, err := r.Take(1)
		_, err2 := r.Reserve(1)
		if err3 := r.Append(1001, 1003); err != ErrSealed || err2 != ErrSealed || err3 != ErrSealed {
			t.Errorf("%s: after Seal %v, %v, %v", c.name, err, err2, err3)
		}
	}
}

// What another goroutine may have done since a Take found the current block empty.
func TestTheCurrentBlockIsLeftOnlyWhenItIsUsedUpForGood(t *testing.T) {
	r := newRack(1)
	r.append(t, 1, 5)
	r.want(t, 5, 1, 5)
	b := r.current.Load()
	r.append(t, 6, 9)
	r.append(t, 21, 30)
	if err := r.advance(b); err != nil || r.current.Load() != b {
		t.Errorf("%v, and the current block begins at %d", err, r.current.Load().lo)
	}
	r.want(t, 9, 6, 9)
	if err := r.advance(b); err != nil || r.current.Load() == b || r.Last() != 9 {
		t.Errorf("%v, last %d", err, r.Last())
	}
	r.want(t, 3, 21, 23)
	b = r.current.Load()
	r.append(t, 41, 60)
	r.wantReserved(t, 20, 41, 60)
	if taken, end := b.taken.Load(), b.end.Load(); taken != end { // another Take may still look at b
		t.Errorf("%d of %d are gone from the block that was passed over", taken, end)
	}
}

// Half of each new block is left when the bell rings, also if takers were faster than Append.
func TestTheBellRingsOnceABlock(t *testing.T) {
	r := newRack(1)
	rung := func(n int64, when string) {
		t.Helper()
		if got := r.rung.Swap(0); got != n {
			t.Errorf("%s: rang %d times, want %d", when, got, n)
		}
	}
	r.append(t, 1, 100)
	for range 49 {
		r.Take(1)
	}
	rung(0, "49 of 100 gone")
	r.Take(1)
	rung(1, "50 of 100 gone")
	r.Take(40)
	r.append(t, 101, 120)
	r.Take(19)
	rung(0, "109 of 120 gone")
	r.Take(2)
	rung(1, "111 of 120 gone")
	r.Reserve(9)
	rung(0, "all gone")
	r.append(t, 121, 121)
	r.Take(1)
	rung(1, "the only value gone")
	r.append(t, 201, 300)
	r.Reserve(80)
	rung(1, "80 reserved of 100")
	r.Raise(400)
	rung(1, "raised")
	r.append(t, 381, 405)
	rung(1, "a block is mostly below the floor")
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
