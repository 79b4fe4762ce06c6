package generator

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"time"
)

const year2024 = int64(1732060800000)

// Layouts of the three units that the stores are tested with too; the last two share their names
// with nothing.
func unitLayouts() []Layout {
	hundredths, seconds := Sonyflake(),
		Layout{Name: "seconds", Epoch: 1420070400123, Unit: 1000, TimeBits: 31, WorkerBits: 10, SequenceBits: 20}
	return []Layout{Katsubushi(), hundredths, seconds}
}

func mustNew(t testing.TB, o Options) *Snowflake {
	t.Helper()
	s, err := NewSnowflake(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustTake(t testing.TB, s *Snowflake, now, limit int64, n int) id.Run {
	t.Helper()
	r, err := s.Take(now, limit, n)
	if err != nil {
		t.Fatalf("Take(%d, %d, %d): %v; next %d, end %d", now, limit, n, err, s.Next(), s.End())
	}
	return r
}

func TestNewRefuses(t *testing.T) {
	l := Katsubushi()
	for what, o := range map[string]Options{
		"no layout":             {Lo: year2024, Hi: year2024},
		"worker too large":      {Layout: l, Worker: 1024, Lo: year2024, Hi: year2024},
		"past the time field":   {Layout: l, Lo: l.End(), Hi: l.End() + 5},
		"far past it":           {Layout: l, Lo: math.MaxInt64, Hi: math.MaxInt64},
		"window ends too early": {Layout: l, Lo: year2024, Hi: year2024 - 2},
	} {
		if _, err := NewSnowflake(o); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// A worker id that was never used may be granted from the beginning of time.
func TestWindowFromBeforeTheEpoch(t *testing.T) {
	for _, l := range unitLayouts() {
		s := mustNew(t, Options{Layout: l, Lo: 1, Hi: l.Epoch + l.Unit - 1})
		if s.Position() != 0 || s.Next() != l.Epoch || s.End() != l.Epoch+l.Unit-1 {
			t.Errorf("%s: position %d, next %d, end %d", l, s.Position(), s.Next(), s.End())
		}
		if r := mustTake(t, s, 0, l.Epoch, 1); r.First != 0 {
			t.Errorf("%s: the first id of all is %d", l, r.First)
		}
		s = mustNew(t, Options{Layout: l, Lo: math.MinInt64, Hi: l.Epoch - 1})
		if _, err := s.Take(l.Epoch, l.Epoch, 1); !errors.Is(err, ErrWindow) {
			t.Errorf("%s: a window before the epoch gave %v", l, err)
		}
	}
}

func TestNextToTheClock(t *testing.T) {
	s := mustNew(t, Options{Layout: Katsubushi(), Worker: 5, Lo: year2024, Hi: math.MaxInt64})
	a := mustTake(t, s, year2024+10, year2024+10, 1)
	b := mustTake(t, s, year2024+10, year2024+10, 3)
	c := mustTake(t, s, year2024+11, year2024+11, 1)
	if b.First != a.First+1 || b.N != 3 || c.First != a.First+1<<22 {
		t.Errorf("%+v, then %+v, then %+v", a, b, c)
	}
}

func TestClockBackIsRiddenOut(t *testing.T) {
	s := mustNew(t, Options{Layout: Katsubushi(), Lo: year2024, Hi: math.MaxInt64})
	a := mustTake(t, s, year2024+500, year2024+1500, 1)
	b := mustTake(t, s, year2024, year2024+1000, 1) // half a second back: within the second of run-ahead
	if b.First != a.First+1 {
		t.Errorf("after %d came %d", a.First, b.First)
	}
	if r, err := s.Take(year2024-600, year2024+400, 1); !errors.Is(err, ErrAhead) {
		t.Errorf("1.1 s back: %+v, %v", r, err)
	}
	if s.Next() != year2024+500 {
		t.Errorf("next at %d", s.Next())
	}
	if got := mustTake(t, s, year2024-500, year2024+500, 1); got.First != a.First+2 {
		t.Errorf("a refused Take used something up: %d after %d", got.First, b.First)
	}
}

// Every end of every unit: no id lies outside the window, and every tick wholly inside gives all of
// its ids.
func TestWindow(t *testing.T) {
	for _, l := range unitLayouts() {
		base := l.Epoch + 1000*l.Unit
		for _, off := range []int64{0, 1, l.Unit - 1, l.Unit, l.Unit + 1} {
			for _, length := range []int64{0, 1, l.Unit - 1, l.Unit, l.Unit + 1, 2*l.Unit - 1, 2 * l.Unit, 3 * l.Unit} {
				lo, hi := base+off, base+off+length-1
				s := mustNew(t, Options{Layout: l, Lo: lo, Hi: hi})
				if s.Position() != lo-1 {
					t.Fatalf("%s: position %d before the first id of window %d", l, s.Position(), lo)
				}
				first := (lo - l.Epoch + l.Unit - 1) / l.Unit
				end := (hi + 1 - l.Epoch) / l.Unit
				want, got := max(0, end-first)*int64(l.MaxSequence()+1), int64(0)
				for {
					r, err := s.Take(base, l.End(), 1<<30)
					if err != nil {
						if !errors.Is(err, ErrWindow) {
							t.Fatal(err)
						}
						break
					}
					got += int64(r.N)
					for _, id := range []uint64{r.First, r.First + uint64(r.N-1)*r.Stride} {
						if at := l.Decompose(id).Time.UnixMilli(); at < lo || at+l.Unit-1 > hi {
							t.Fatalf("%s: id of tick %d..%d in window %d..%d", l, at, at+l.Unit-1, lo, hi)
						}
					}
				}
				if got != want {
					t.Errorf("%s: window %d..%d gave %d ids, not %d", l, lo, hi, got, want)
				}
				if p := s.Seal(); p > hi || want > 0 && p != l.Epoch+end*l.Unit-1 || want == 0 && p != lo-1 {
					t.Errorf("%s: window %d..%d ended at %d", l, lo, hi, p)
				}
			}
		}
	}
}

// Adjoining windows of one worker id, in any pieces: what one generator reports is where the next
// may start, and nothing comes twice.
func TestSuccessors(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := unitLayouts()[rnd.IntN(3)]
		l.SequenceBits = 1 + uint8(rnd.IntN(3))
		seen := map[uint64]bool{}
		lo := l.Epoch + rnd.Int64N(5*l.Unit)
		for range 20 {
			hi := lo - 1 + rnd.Int64N(4*l.Unit)
			s := mustNew(t, Options{Layout: l, Lo: lo, Hi: hi, RandomStart: rnd.IntN(2) == 0})
			for range rnd.IntN(20) {
				if rnd.IntN(5) == 0 {
					to := hi + rnd.Int64N(3*l.Unit)
					if err := s.Extend(hi+1, to); err != nil {
						t.Fatal(err)
					}
					hi = to
				}
				now := lo - 2*l.Unit + rnd.Int64N(8*l.Unit)
				r, err := s.Take(now, now+rnd.Int64N(3*l.Unit), 1+rnd.IntN(9))
				if err != nil {
					continue
				}
				for i := range r.N {
					id := r.First + uint64(i)*r.Stride
					if seen[id] {
						t.Fatalf("seed %d: %d issued twice", seed, id)
					}
					seen[id] = true
				}
			}
			last := s.Seal()
			if last < lo-1 || last > hi {
				t.Fatalf("seed %d: window %d..%d reports %d", seed, lo, hi, last)
			}
			lo = last + 1
		}
	}
}

func TestExtend(t *testing.T) {
	l := Katsubushi()
	s := mustNew(t, Options{Layout: l, Lo: year2024, Hi: year2024 - 1})
	if _, err := s.Take(year2024, year2024, 1); !errors.Is(err, ErrWindow) {
		t.Errorf("an empty window gave %v", err)
	}
	for _, lo := range []int64{year2024 - 1, year2024 + 1, year2024 + 1000, math.MinInt64} {
		if s.Extend(lo, year2024+5000) == nil {
			t.Errorf("extended from %d", lo)
		}
	}
	if err := s.Extend(year2024, year2024+9); err != nil || s.End() != year2024+9 {
		t.Fatalf("%v, end %d", err, s.End())
	}
	if err := s.Extend(year2024+10, year2024); err != nil || s.End() != year2024+9 {
		t.Errorf("an earlier end: %v, end %d", err, s.End())
	}
	mustTake(t, s, year2024+9, year2024+9, 1)
	if _, err := s.Take(year2024+10, year2024+10, 1); !errors.Is(err, ErrWindow) {
		t.Errorf("past the end: %v", err)
	}
	if err := s.Extend(year2024+10, math.MaxInt64); err != nil || s.End() != l.End()-1 {
		t.Fatalf("%v, end %d", err, s.End())
	}
	mustTake(t, s, l.End()-1, l.End()-1, 1)
}

// The clock may say anything at all. Nothing wraps, and nothing is issued twice.
func TestAbsurdClocks(t *testing.T) {
	absurd := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 53, -1, 0, 1, 1 << 52, 1<<52 + year2024, 1 << 62,
		math.MaxInt64 - 1, math.MaxInt64}
	for _, epoch := range []int64{-1 << 61, -1, 0, 1420070400000, 1 << 61} {
		for _, unit := range []int64{1, 10, 60000} {
			l := Layout{Epoch: epoch, Unit: unit, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
			if err := l.Check(); err != nil {
				t.Fatal(err)
			}
			s := mustNew(t, Options{Layout: l, Lo: epoch, Hi: math.MaxInt64})
			clocks := append(slices.Clone(absurd), epoch-1, epoch, epoch+unit, l.End()-1, l.End(), l.End()+1)
			slices.Sort(clocks)
			last := uint64(0)
			for range 2 {
				for _, now := range clocks {
					for _, limit := range clocks {
						if limit < now {
							continue
						}
						before := s.Check(now, limit)
						r, err := s.Take(now, limit, 2)
						if err != before {
							t.Fatalf("at %d with limit %d Check said %v and Take %v", now, limit, before, err)
						}
						if err != nil {
							continue
						}
						if r.First <= last && last != 0 {
							t.Fatalf("epoch %d, unit %d: at %d with limit %d, %d came after %d", epoch, unit, now, limit, r.First, last)
						}
						last = r.First + uint64(r.N-1)*r.Stride
						if at := l.Decompose(last).Time.UnixMilli(); at > limit || now < l.End() && at+unit <= now {
							t.Fatalf("epoch %d, unit %d: at %d with limit %d, an id of %d", epoch, unit, now, limit, at)
						}
					}
				}
			}
		}
	}
}

// The widest words: the position past the last must not look sealed.
func TestLastPosition(t *testing.T) {
	l := Layout{Epoch: 0, Unit: 1, TimeBits: 50, WorkerBits: 2, SequenceBits: 12}
	s := mustNew(t, Options{Layout: l, Worker: 3, Lo: l.End() - 1, Hi: math.MaxInt64})
	r := mustTake(t, s, l.End()-1, math.MaxInt64, 1<<20)
	if r.N != 4096 || r.First+4095 != math.MaxUint64 {
		t.Errorf("%+v", r)
	}
	if _, err := s.Take(l.End()-1, math.MaxInt64, 1); !errors.Is(err, ErrWindow) {
		t.Errorf("after the last id of all: %v", err)
	}
	if got := s.Position(); got != l.End()-1 {
		t.Errorf("position %d", got)
	}
}

func TestTakeAsksForAtLeastOne(t *testing.T) {
	s := mustNew(t, Options{Layout: Katsubushi(), Lo: year2024, Hi: math.MaxInt64})
	for _, n := range []int{0, -1, math.MinInt} {
		if r := mustTake(t, s, year2024, year2024, n); r.N != 1 {
			t.Errorf("Take(%d) gave %d", n, r.N)
		}
	}
	if r := mustTake(t, s, year2024, year2024, math.MaxInt); r.N != 4096-3 {
		t.Errorf("the rest of the tick is %d", r.N)
	}
}

func TestRandomStart(t *testing.T) {
	s := mustNew(t, Options{Layout: Katsubushi(), Worker: 9, Lo: year2024, Hi: math.MaxInt64, RandomStart: true})
	var low [8]int
	for i := range int64(8000) {
		low[mustTake(t, s, year2024+1+i*7, year2024+1+i*7, 1).First%8]++
	}
	for shard, n := range low {
		if n < 850 || n > 1150 { // 1,000 expected; the clock is fixed, so the figures are too
			t.Errorf("shard %d of 8 got %d of 8000", shard, n)
		}
	}
}

func TestConcurrentTakesAreUnique(t *testing.T) {
	for _, l := range unitLayouts() {
		s := mustNew(t, Options{Layout: l, Worker: 3, Lo: year2024, Hi: math.MaxInt64})
		const workers, each = 8, 5000
		all := make([][]uint64, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 2))
				for len(all[w]) < each {
					now := year2024 + rnd.Int64N(3*l.Unit)
					r, err := s.Take(now, now+1000*l.Unit, 1+rnd.IntN(20))
					if err != nil {
						t.Errorf("%s: %v", l, err)
						return
					}
					for i := range r.N {
						all[w] = append(all[w], r.First+uint64(i)*r.Stride)
					}
				}
			})
		}
		wg.Wait()
		ids := slices.Concat(all...)
		total := len(ids)
		slices.Sort(ids)
		if unique := len(slices.Compact(ids)); unique != total {
			t.Errorf("%s: %d of %d ids are duplicates", l, total-unique, total)
		}
	}
}

// Takes race with Seal: none succeeds that the reported position does not cover.
func TestSealBeatsRunningTakes(t *testing.T) {
	l := Katsubushi()
	for round := range 300 {
		s := mustNew(t, Options{Layout: l, Lo: year2024, Hi: math.MaxInt64})
		const takers = 4
		var last [takers]int64
		var started, wg sync.WaitGroup
		started.Add(takers)
		for i := range takers {
			wg.Go(func() {
				for n := 0; ; n++ {
					r, err := s.Take(year2024, l.End(), 1000)
					if err != nil {
						if !errors.Is(err, ErrSealed) {
							t.Error(err)
						}
						return
					}
					last[i] = l.Decompose(r.First).Time.UnixMilli()
					if n == 0 {
						started.Done()
					}
					if n%64 == 0 {
						runtime.Gosched() // on few processors, let Seal come to its turn
					}
				}
			})
		}
		started.Wait()
		sealedAt := s.Seal()
		wg.Wait()
		if got := slices.Max(last[:]); got != sealedAt || s.Seal() != sealedAt || s.Position() != sealedAt {
			t.Fatalf("round %d: sealed at %d, but an id of %d was issued; position %d", round, sealedAt, got, s.Position())
		}
	}
}

// The position that Seal reports is that of the moment at which it ends the generator, and not one
// from just before. Between two such moments lie few instructions, so one thread takes whole ticks,
// which move the position each time, and another one seals, both without ever waiting for the
// scheduler. While both have a processor, as they soon do even on a busy machine, a few hundred
// generators are enough.
func TestSealReportsTheLastTick(t *testing.T) {
	const effort, each, enough = 3 * time.Second, 10_000, 50_000
	l := Katsubushi()
	rounds := 0
	for began := time.Now(); time.Since(began) < effort && rounds < enough; {
		all := make([]*Snowflake, each)
		for i := range all {
			all[i] = mustNew(t, Options{Layout: l, Lo: year2024, Hi: math.MaxInt64})
		}
		last := make([]uint64, each) // the first id of the last tick taken
		var done sync.WaitGroup
		done.Go(func() {
			for i, s := range all {
				for {
					r, err := s.Take(year2024, l.End(), 1<<l.SequenceBits)
					if err != nil {
						break
					}
					last[i] = r.First
				}
			}
		})
		reported := make([]int64, each)
		for i, s := range all {
			for first := s.Position(); s.Position() < first+3 && time.Since(began) < effort; {
			}
			reported[i] = s.Seal()
		}
		done.Wait()
		for i, s := range all {
			if taken := l.Decompose(last[i]).Time.UnixMilli(); last[i] != 0 && taken != reported[i] || s.Seal() != reported[i] {
				t.Fatalf("generator %d: sealed at %d, but an id of %d was issued; position %d", rounds+i, reported[i], taken,
					s.Position())
			}
		}
		rounds += each
	}
	t.Logf("%d generators", rounds)
}

func TestTakeDoesNotAllocate(t *testing.T) {
	for _, l := range unitLayouts() {
		s := mustNew(t, Options{Layout: l, Lo: year2024, Hi: math.MaxInt64, RandomStart: true})
		now := year2024
		if n := testing.AllocsPerRun(1000, func() {
			now++
			mustTake(t, s, now, now+100*l.Unit, 3)
		}); n != 0 {
			t.Errorf("%s: %v allocations", l, n)
		}
	}
}

// Only the tick of the limit is not used up: neither the ones before it nor the present, where it
// is not that tick.
func TestTakeLeavingLeavesTheEndOfTheLastTick(t *testing.T) {
	l := Katsubushi()
	l.Unit = 10
	lo := l.Epoch + 1000
	s, err := NewSnowflake(Options{Layout: l, Worker: 1, Lo: lo, Hi: lo + 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		now, limit int64 // ms of the window
		want       int   // ids of the run, 0 = ErrAhead
	}{
		{0, 19, 4000}, {0, 19, 96}, {5, 19, 3096}, {9, 19, 0}, {10, 19, 0}, {10, 20, 1000}, {10, 20, 3096}, {10, 29, 0},
		{35, 35, 3096}, {35, 39, 0},
	} {
		r, err := s.TakeLeaving(lo+c.now, lo+c.limit, 4000, 1000)
		if r.N != c.want || (c.want == 0) != errors.Is(err, ErrAhead) {
			t.Errorf("%d: now %d, limit %d: %d ids, %v", i, c.now, c.limit, r.N, err)
		}
	}
	if r, err := s.Take(lo+39, lo+39, 4000); r.N != 1000 || err != nil {
		t.Errorf("what was left: %d ids, %v", r.N, err)
	}
}
