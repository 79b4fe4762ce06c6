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
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A stand is Positions with a clock of the test's.
type stand struct {
	*Positions
	l      Layout
	zero   uint64 // the position of its beginning
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
	s.zero = s.position(s.now())
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

// at is a position: ticks after the one in which the stand began, and the place in the tick.
func (s *stand) at(position uint64) string {
	ticks := int64(position>>s.l.SequenceBits) - int64(s.zero>>s.l.SequenceBits)
	return fmt.Sprintf("%d/%d", ticks, position&s.l.MaxSequence())
}

// run is a call of Take or Reserve, with the moment of so long ago.
func (s *stand) run(take func(int64, int) (id.Run, error), n int, ago []time.Duration) (string, error) {
	run, err := take(s.moment-int64(append(ago, 0)[0]), n)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d from %s on", run.N, s.at(s.l.PositionOf(run.First))), nil
}

// drain takes all that there is, now and after each ms that passes.
func (s *stand) drain(ms int) (ids uint64) {
	for n := 0; ; {
		if run, err := s.Take(s.moment, 1<<16); err == nil {
			ids += uint64(run.N)
		} else if n++; n > ms {
			return ids
		} else {
			s.moment += int64(time.Millisecond)
		}
	}
}

// TestStands: what Positions issue, and when the bell rings.
func TestStands(t *testing.T) {
	steps.Run(t, "testdata/positions.txt", func(t *testing.T) steps.Calls {
		s := newStand(t, Katsubushi())
		return steps.Calls{
			"layout": func(text string) error {
				l, err := ParseLayout(text)
				s = newStand(t, l)
				return err
			},
			"grant":       func(d time.Duration) { s.grant(t, d) },
			"grant-last":  func(n uint64) error { return s.Append(s.l.LastPosition()-n+1, s.l.LastPosition()) },
			"pass":        func(d time.Duration) { s.moment += int64(d) },
			"set-clock":   func(d time.Duration) { s.set(s.now().Add(d)) },
			"take":        func(n int) (string, error) { return s.run(s.Take, n, nil) },
			"reserve":     func(n int, ago ...time.Duration) (string, error) { return s.run(s.Reserve, n, ago) },
			"drain":       func(ms int) uint64 { return s.drain(ms) },
			"raise":       func(ahead time.Duration) { s.Raise(s.position(s.now().Add(ahead))) },
			"away":        func(away bool) { s.Away(away) },
			"last":        func() string { return s.at(s.l.PositionOf(s.Last())) },
			"last-of-all": func() time.Time { return s.l.Decompose(s.l.LastPosition()).Time },
			"is-last":     func() bool { return s.l.PositionOf(s.Last()) == s.l.LastPosition() },
			"distance":    func() time.Duration { return s.Distance() },
			"bell": func() string {
				defer func() { s.rung = 0 }()
				return fmt.Sprintf("rang %d times, low: %v", s.rung, s.Low())
			},
		}
	})
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

func TestPositionsOfManyGoroutines(t *testing.T) {
	s := newStand(t, Katsubushi())
	s.grant(t, time.Hour)
	var all sync.WaitGroup
	runs := make([][]id.Run, 8)
	for g := range runs {
		all.Go(func() {
			for i := range 2000 {
				moment := s.moment + int64(i)*int64(10*time.Microsecond)
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
