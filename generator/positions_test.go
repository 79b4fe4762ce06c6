package generator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// A stand is Positions with a clock of the test's.
type stand struct {
	*Positions
	l      Layout
	moment int64
	offset atomic.Int64
	rung   int
}

const node = 7

// Layouts that only segments have, with many and with few ids in a second.
var (
	nodeless = Layout{Unit: 1, TimeBits: 44, SequenceBits: 18}
	inFront  = Layout{Unit: 1000, TimeBits: 33, WorkerBits: 10, SequenceBits: 8, WorkerHigh: true}
)

// newStand makes Positions whose block begins now, and is long.
func newStand(t *testing.T, l Layout) *stand {
	t.Helper()
	s := &stand{l: l, moment: int64(time.Hour)}
	s.set(time.UnixMilli(1_790_000_000_000))
	s.Positions = NewPositions(PositionsConfig{Layout: l, Node: node & l.MaxWorker(), RunAhead: time.Second,
		Ahead: 3 * time.Second, Moment: func() int64 { return s.moment }, Offset: &s.offset, Ring: func() { s.rung++ }})
	return s
}

// set makes the present a time.
func (s *stand) set(now time.Time) { s.offset.Store(now.UnixNano() - s.moment) }

func (s *stand) now() time.Time { return time.Unix(0, s.moment+s.offset.Load()) }

// position returns the position of a time.
func (s *stand) position(at time.Time) uint64 {
	return uint64((at.UnixMilli()-s.l.Epoch)/s.l.Unit) << s.l.SequenceBits
}

// grant appends a block from now on.
func (s *stand) grant(t *testing.T, d time.Duration) {
	t.Helper()
	if err := s.Append(s.position(s.now()), s.position(s.now().Add(d))|s.l.MaxSequence()); err != nil {
		t.Fatal(err)
	}
}

// With the node in the middle, ids in a row begin with the next tick if they do not fit into the rest of this one,
// though the clock has not reached it.
func TestPositionsInARowPassOverTheRestOfATick(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, time.Second)
	first, err := s.Take(s.moment, 1)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Reserve(s.moment, 4096)
	if now := s.l.PositionOf(first.First); err != nil || run.N != 4096 || s.l.PositionOf(run.First) != now+4096 {
		t.Errorf("%+v after %+v, %v", run, first, err)
	}
}

// Whatever the clock does, each id is above all before, none comes twice, and those of a Reserve are in a row.
func TestPositionsRiseWhateverTheClockDoes(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		l := []Layout{Katsubushi(), Sonyflake(), JS53(), Instagram(), nodeless, inFront}[rnd.IntN(6)]
		s := newStand(t, l)
		began := s.position(s.now())
		hi, last, issued := began|l.MaxSequence(), uint64(0), uint64(0)
		if err := s.Append(began, hi); err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			switch rnd.IntN(8) {
			case 0:
				s.moment += rnd.Int64N(int64(20 * time.Millisecond))
			case 1:
				s.set(s.now().Add(time.Duration(rnd.Int64N(int64(2*time.Second)) - int64(time.Second))))
			case 2:
				hi = max(hi, s.position(s.now())) + rnd.Uint64N(50*(l.MaxSequence()+1)) | l.MaxSequence()
				if err := s.Append(began, hi); err != nil {
					t.Fatal(err)
				}
			case 3:
				s.Away(rnd.IntN(2) == 0)
			}
			n, take := 1+rnd.IntN(int(l.MaxSequence()+1)), s.Take
			whole := rnd.IntN(2) == 0
			if whole {
				take = s.Reserve
			}
			run, err := take(s.moment, n)
			if err == ErrAhead || err == ErrEmpty {
				continue
			}
			first, end := run.First, run.First+uint64(run.N-1)*run.Stride
			from, to := l.PositionOf(first), l.PositionOf(end)
			switch {
			case err != nil:
				t.Fatalf("seed %d: %v", seed, err)
			case first <= last:
				t.Fatalf("seed %d: %d after %d", seed, first, last)
			case whole && run.N != n || from+uint64(run.N-1) != to || from < began || to > hi:
				t.Fatalf("seed %d: %d ids of %d: %d to %d, in a block up to %d", seed, run.N, n, from, to, hi)
			case (l.Decompose(first).Worker^node)&l.MaxWorker() != 0 || l.Decompose(end).Worker != l.Decompose(first).Worker:
				t.Fatalf("seed %d: %d and %d have other nodes", seed, first, end)
			}
			last, issued = end, issued+uint64(run.N)
			if s.Issued() != issued || s.Last() != last {
				t.Fatalf("seed %d: %d issued, up to %d: it counts %d, %d", seed, issued, last, s.Issued(), s.Last())
			}
		}
		next, rest := s.Seal()
		if at := l.PositionOf(last); at == hi && next == 0 {
			continue // all of it was issued
		} else if next != at+1 || next+rest-1 != hi && next <= hi {
			t.Fatalf("seed %d: sealed at %d with %d left, after %d, up to %d", seed, next, rest, at, hi)
		}
		if _, err := s.Take(s.moment, 1); err != ErrSealed {
			t.Fatal(err)
		}
	}
}

// A full tick flows into the next one, though the clock stands still: no position is passed over.
func TestAFullTickFlowsOn(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, time.Second)
	next := s.position(s.now())
	for range 10 {
		run, err := s.Take(s.moment, 3000)
		if got := s.l.PositionOf(run.First); err != nil || got != next {
			t.Fatalf("%d, %v; want %d", got, err, next)
		}
		next += uint64(run.N)
	}
	if want := s.position(s.now()) + 5*4096; next < want {
		t.Errorf("%d, less than five ticks", next-s.position(s.now()))
	}
}

// drain takes all that there is at this moment.
func (s *stand) drain() (ids uint64) {
	for {
		run, err := s.Take(s.moment, 1<<16)
		if err != nil {
			return ids
		}
		ids += uint64(run.N)
	}
}

// A record far ahead of the clock stops nobody: positions go on at 7/8 of the clock's pace, from when that was
// noticed, and the distance shrinks. However long the clock was right before.
func TestAWrongClockIsMadeUpFor(t *testing.T) {
	for _, before := range []time.Duration{0, time.Hour} {
		for _, l := range []Layout{Katsubushi(), Sonyflake()} {
			s := newStand(t, l)
			s.grant(t, 2*time.Hour)
			if before > 0 {
				s.drain()
				s.moment += int64(before)
				s.drain()
			} else if _, err := s.Take(s.moment, 1); err != nil {
				t.Fatal(err)
			}
			s.set(s.now().Add(-time.Minute))
			if ids := s.drain(); ids > l.MaxSequence()+1 {
				t.Errorf("%s after %v: %d ids at once", l, before, ids)
			}
			was, perSecond := s.Distance(), float64(l.MaxSequence()+1)*1000/float64(l.Unit)
			ids := uint64(0)
			for range 8000 {
				s.moment += int64(time.Millisecond)
				ids += s.drain()
			}
			if share := float64(ids) / 8 / perSecond; share < 0.87 || share > 0.88 {
				t.Errorf("%s after %v: at %.3f of the clock's pace", l, before, share)
			}
			if shrunk := was - s.Distance(); shrunk < 900*time.Millisecond || shrunk > 1100*time.Millisecond {
				t.Errorf("%s after %v: the distance was %v, and is %v", l, before, was, s.Distance())
			}
			s.set(s.now().Add(time.Minute)) // and then as before
			if ids := s.drain(); float64(ids) < perSecond*0.9 {
				t.Errorf("%s after %v: %d ids within the run-ahead", l, before, ids)
			}
		}
	}
}

// A request that waits goes on asking with the moment at which it arrived.
func TestARequestThatWaitsIsServed(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, time.Hour)
	s.drain()
	arrived := s.moment
	if _, err := s.Reserve(arrived, 4096); err != ErrAhead {
		t.Fatal(err)
	}
	s.set(s.now().Add(-time.Minute))
	for range 10 {
		s.moment += int64(time.Millisecond)
		if _, err := s.Reserve(arrived, 4096); err == nil {
			return
		}
	}
	t.Error("it was not served")
}

// Who is raised while positions go on at the pace is served at that pace from there.
func TestARaiseFarAheadIsServed(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, 2*time.Hour)
	s.drain()
	raised := s.position(s.now().Add(time.Hour))
	s.Raise(raised)
	ids := s.drain()
	for range 8 {
		s.moment += int64(time.Millisecond)
		ids += s.drain()
	}
	if ids != 1+7*4096 || s.lastPosition() < raised {
		t.Errorf("%d ids in 8 ticks, up to %d", ids, s.lastPosition()-raised)
	}
}

// The time field of a layout may go beyond what 64 bits of ns can count. Ids are issued up to LastPosition, no further.
func TestTheLastPositions(t *testing.T) {
	s := newStand(t, nodeless)
	last := nodeless.LastPosition()
	if at := nodeless.Decompose(last).Time.Year(); at != 2261 {
		t.Fatal(at)
	}
	if err := s.Append(last-9, last); err != nil {
		t.Fatal(err)
	}
	got := s.drain()
	for range 10 {
		s.moment += int64(time.Hour)
		got += s.drain()
	}
	if _, err := s.Take(s.moment, 1); got != 10 || err != ErrEmpty || s.lastPosition() != last {
		t.Error(got, err, s.lastPosition())
	}
}

// lastPosition returns the last position.
func (s *stand) lastPosition() uint64 { return s.l.PositionOf(s.Last()) }

// While the store is away, what is left of the block goes on for so long as it was granted ahead.
func TestPositionsWhileTheStoreIsAway(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, 3*time.Second)
	first, _ := s.Take(s.moment, 1)
	s.moment += int64(5 * time.Second)
	if run, err := s.Take(s.moment, 1); err != ErrEmpty {
		t.Fatal(run, err)
	}
	s.Away(true)
	run, err := s.Take(s.moment, 1)
	if at := s.l.Decompose(run.First).Time; err != nil || run.First <= first.First || s.now().Sub(at) > 6*time.Second {
		t.Fatal(run, err, first)
	}
	s.moment += int64(2 * time.Second)
	if run, err := s.Take(s.moment, 1); err != ErrEmpty {
		t.Fatal(run, err)
	}
}

// An idle name never rings, and a busy one when half of its block is gone, by use or by time.
func TestPositionsRing(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, 3*time.Second)
	step := func(d time.Duration, want int, low bool) {
		t.Helper()
		s.moment += int64(d)
		if _, err := s.Take(s.moment, 1); err != nil {
			t.Fatal(err)
		}
		if s.rung != want || s.Low() != low {
			t.Fatalf("rung %d times, low %v", s.rung, s.Low())
		}
	}
	step(0, 0, false)
	step(1400*time.Millisecond, 0, false)
	if s.moment += int64(300 * time.Millisecond); s.rung != 0 || s.Low() {
		t.Fatal("nobody asked")
	}
	step(0, 1, true)
	s.grant(t, 3*time.Second)
	step(time.Second, 1, false)
}

func TestPositionsOfManyGoroutines(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, time.Hour)
	var all sync.WaitGroup
	runs := make([][]id.Run, 8)
	for g := range runs {
		all.Go(func() {
			for i := range 2000 {
				moment := s.c() + int64(i)*int64(10*time.Microsecond)
				take := s.Take
				if g%2 == 0 {
					take = s.Reserve
				}
				if run, err := take(moment, 1+g); err == nil {
					runs[g] = append(runs[g], run)
				}
			}
		})
	}
	all.Wait()
	var issued uint64
	seen := map[uint64]bool{}
	for _, some := range runs {
		if !slices.IsSortedFunc(some, func(a, b id.Run) int { return int(int64(a.First) - int64(b.First)) }) {
			t.Error("one goroutine's are not in order")
		}
		for _, r := range some {
			issued += uint64(r.N)
			for i := range uint64(r.N) {
				if seen[r.First+i*r.Stride] {
					t.Fatal("twice")
				}
				seen[r.First+i*r.Stride] = true
			}
		}
	}
	if s.Issued() != issued || issued < 10_000 {
		t.Errorf("%d issued, and it counts %d", issued, s.Issued())
	}
}

func (s *stand) c() int64 { return s.moment }

func TestPositionsAllocateNothing(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, time.Hour)
	if n := testing.AllocsPerRun(1000, func() {
		s.moment += 1000
		if _, err := s.Take(s.moment, 1); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Error(n)
	}
}

// The id of a position, and back, is that of Compose and Decompose, for all layouts.
func TestPositionsOfIDs(t *testing.T) {
	for _, l := range append(Layouts(), nodeless, inFront) {
		at := l.LastPosition() / 3
		v := l.AtPosition(at, l.MaxWorker())
		p := l.Decompose(v)
		if got, err := l.Compose(p); err != nil || got != v || p.Worker != l.MaxWorker() || l.PositionOf(v) != at {
			t.Error(l, v, p, got, err)
		}
	}
	for _, c := range []struct {
		l    Layout
		want uint64
	}{
		{Katsubushi(), 4096}, {Sonyflake(), 25600}, {Layout{Unit: 1, TimeBits: 41, SequenceBits: 20}, 1 << 20 * 1000},
		{inFront, 256},
		{Layout{Unit: 1, TimeBits: 41, WorkerBits: 9, SequenceBits: 12, WorkerHigh: true}, 4096 * 1000},
	} {
		if got := c.l.InRow(time.Second); got != c.want {
			t.Error(c.l, got)
		}
	}
}

func ExampleLayout_AtPosition() {
	l := Katsubushi()
	v := l.AtPosition(1<<32, 1023)
	fmt.Println(v, l.PositionOf(v) == 1<<32, l.Decompose(v).Worker)
	// Output: 4398050701312 true 1023
}

func BenchmarkPositions(b *testing.B) {
	var offset atomic.Int64
	began := time.Now()
	moment := func() int64 { return int64(time.Since(began)) + 1 }
	offset.Store(began.UnixNano())
	p := NewPositions(PositionsConfig{Layout: Katsubushi(), RunAhead: time.Hour, Ahead: time.Second, Moment: moment,
		Offset: &offset, Ring: func() {}})
	p.Append(1, Katsubushi().LastPosition())
	for b.Loop() {
		if _, err := p.Take(moment(), 1); err != nil {
			b.Fatal(err)
		}
	}
}
