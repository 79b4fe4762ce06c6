package latency

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestBuckets compares the buckets with their definitions, for durations on both sides of each bound.
func TestBuckets(t *testing.T) {
	var durations []time.Duration
	for _, b := range bounds {
		durations = append(durations, b-1, b, b+1)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		durations = append(durations, time.Duration(math.Exp(r.Float64()*math.Log(float64(longest)))))
	}
	durations = append(durations, 0, 1, longest, longest+1, time.Hour, math.MaxInt64, -1)
	for _, d := range durations {
		var h Histogram
		h.Observe(d, 3)
		var s Snapshot
		s.Add(&h)
		d = min(max(d, 0), longest)
		for i, n := range s.Classic() {
			if want := map[bool]uint64{true: 3}[d <= Bounds[i]]; n != want {
				t.Errorf("%v: %d of 3 are counted as at most %v", d, n, Bounds[i])
			}
		}
		for i, n := range s.Native() {
			low, high := math.Exp2(float64(i-1)/8), math.Exp2(float64(i)/8)
			if n != 3 || d.Seconds() > high || d.Seconds() <= low && i > lowest {
				t.Errorf("%v: %d are in native bucket %d, %v to %v", d, n, i, low, high)
			}
		}
		if s.Count() != 3 || math.Abs(s.Sum()-3*d.Seconds()) > 1e-9 {
			t.Errorf("%v: count %d, sum %v", d, s.Count(), s.Sum())
		}
	}
}

func TestQuantiles(t *testing.T) {
	var a, b Histogram
	var s Snapshot
	if s.Quantile(0.5) != 0 || s.Count() != 0 {
		t.Errorf("of nothing: %v", s.Quantile(0.5))
	}
	for us := 1; us <= 1000; us++ { // 1 µs to 1 ms
		h := &a
		if us%2 == 0 {
			h = &b
		}
		h.Observe(time.Duration(us)*time.Microsecond, 5)
	}
	s.Add(&a)
	s.Add(&b)
	if s.Count() != 5000 {
		t.Errorf("count %d", s.Count())
	}
	near := func(s Snapshot, q float64, want time.Duration) {
		t.Helper()
		if got := s.Quantile(q); got < want*91/100 || got > want*110/100 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	near(s, 0.1, 100*time.Microsecond)
	near(s, 0.5, 500*time.Microsecond)
	near(s, 0.99, 990*time.Microsecond)
	near(s, 1, time.Millisecond)
	if q := s.Quantile(0); q > time.Microsecond {
		t.Errorf("quantile 0 is %v", q)
	}
	a.Observe(3*time.Second, 10)
	a.Observe(time.Hour, 10)
	var later Snapshot
	later.Add(&a)
	later.Add(&b)
	since := later.Since(s)
	if since.Count() != 20 || math.Abs(since.Sum()-10*(3+64)) > 1e-6 {
		t.Errorf("since then %d, %v s", since.Count(), since.Sum())
	}
	near(since, 0.25, 3*time.Second)
	near(since, 1, longest)
}

// TestSamplerCountsAllAnswers: each answer is counted once, whichever turns are measured, and at least one
// turn in 32 is.
func TestSamplerCountsAllAnswers(t *testing.T) {
	var h Histogram
	s := Sampler{Histogram: &h}
	count := func() uint64 {
		var sum Snapshot
		sum.Add(&h)
		return sum.Count()
	}
	answers, gap, measured, last := uint64(0), 0, 0, uint64(0)
	const turns = 3000
	for turn := range turns {
		s.Begins(1000)
		if turn%3 != 0 { // a turn without answers is not measured
			for range turn % 5 {
				s.Answered()
				answers++
			}
		}
		s.Ends()
		if now := count(); now != last {
			if now != answers {
				t.Fatalf("turn %d: %d of %d answers are counted", turn, now, answers)
			}
			if turn%3 == 0 || turn%5 == 0 {
				t.Errorf("turn %d was without answers, and measured", turn)
			}
			measured, gap, last = measured+1, 0, now
		} else if gap++; gap > 32+4 {
			t.Fatalf("turn %d: none of the last %d was measured", turn, gap)
		}
	}
	if measured < turns/32 || measured > turns/12 {
		t.Errorf("%d of %d turns were measured", measured, turns)
	}
}

// TestSampler: what testdata/sampler.txt says of turns is what is counted. Beside a step stands what it adds.
func TestSampler(t *testing.T) {
	steps.Run(t, "testdata/sampler.txt", func(*testing.T) steps.Calls {
		var asked Asked
		s := Sampler{Histogram: new(Histogram), Asked: &asked}
		names := map[string]*Track{"a": new(Track), "b": new(Track), "c": new(Track)}
		before := map[string]string{}
		told := func(what string, n uint64, sum float64, most string) string {
			took := time.Duration(math.Round(sum * 1e9))
			said := fmt.Sprintf("%s: %d answers, %v%s\n", what, n, took, most)
			if said == before[what] || n == 0 {
				return ""
			}
			before[what] = said
			return said
		}
		return steps.Calls{
			"names": names,
			"": func() (said string) {
				if s.Histogram != nil {
					var all Snapshot
					all.Add(s.Histogram)
					said = told("all", all.Count(), all.Sum(), "")
				}
				for _, name := range slices.Sorted(maps.Keys(names)) {
					n, sum := names[name].Total()
					said += told(name, n, sum.Seconds(), fmt.Sprint(", at most ", names[name].Slowest()))
				}
				return said
			},
			"uncounted":     func() { s.Histogram = nil },
			"without-names": func() { s.Asked = nil },
			"sleep":         time.Sleep,
			"begin":         func(ms int64) { s.Begins(s.last + ms) }, // after the turn before
			"unmeasured":    func() { s.wait = max(s.wait, 1) },
			"answers": func(names ...*Track) {
				for _, n := range names {
					asked.Note(n)
					s.Answered()
				}
			},
			"ask": func(names ...*Track) {
				for _, n := range names {
					asked.Note(n)
				}
			},
			"waits":   s.Waits,
			"resumes": s.Resumes,
			"waited":  func(d time.Duration) { s.Waited(Clock() - d) },
			"end":     s.Ends,
			"flush":   s.Flush,
			"forget":  func(n *Track) time.Duration { return n.ForgetSlowest() },
			"many": func(n int) int { // names, by turns
				for range n {
					asked.Note(names["a"])
					asked.Note(names["b"])
				}
				return len(asked.notes)
			},
		}
	})
}

func TestAnyGoroutineMayUseAHistogram(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond, 2)
				var s Snapshot
				s.Add(&h)
			}
		})
	}
	all.Wait()
	var s Snapshot
	if s.Add(&h); s.Count() != 8000 {
		t.Errorf("%d of 8000 are counted", s.Count())
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Second, 1) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for i := 0; b.Loop(); i++ {
		h.Observe(time.Duration(2000+i%1000), 1)
	}
}

// BenchmarkTurn is what measuring adds to each turn of a busy loop.
func BenchmarkTurn(b *testing.B) {
	s := Sampler{Histogram: new(Histogram)}
	for b.Loop() {
		s.Begins(0)
		s.Answered()
		s.Ends()
	}
}

func BenchmarkClock(b *testing.B) {
	for b.Loop() {
		Clock()
	}
}
