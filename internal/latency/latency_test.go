package latency

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

// TestAnswersTakeTheTimeOfTheirTurn: those of turns that are not measured count as those of the last one that was.
func TestAnswersTakeTheTimeOfTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Histogram
		s := Sampler{Histogram: &h}
		const took = 5 * time.Millisecond
		sum := func(answers int) {
			t.Helper()
			var all Snapshot
			all.Add(&h)
			want := float64(answers) * took.Seconds()
			if math.Abs(all.Sum()-want) > 1e-9 || all.Count() != uint64(answers) {
				t.Errorf("%d answers took %v s, want %d and %v s", all.Count(), all.Sum(), answers, want)
			}
		}
		s.Begins(1000)
		time.Sleep(took)
		s.Answered()
		s.Answered()
		s.Ends()
		sum(2)
		s.Begins(1000)
		time.Sleep(time.Second)
		s.Answered()
		s.Ends()
		sum(2)
		s.Flush()
		sum(3)
	})
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
	s.Begins(1000)
	s.Answered()
	s.Ends()
	s.Flush()
	if count() != answers+1 {
		t.Errorf("at the end %d of %d answers are counted", count(), answers+1)
	}
	if s.Waited(Clock() - time.Second); count() != answers+2 {
		t.Errorf("at the end %d of %d answers are counted", count(), answers+2)
	}
}

// TestSamplerMeasuresQuietLoops: a turn that begins quietGap after the last one is measured at once.
func TestSamplerMeasuresQuietLoops(t *testing.T) {
	var h Histogram
	s := Sampler{Histogram: &h}
	for turn := range int64(100) {
		s.Begins(turn * quietGap)
		s.Answered()
		s.Ends()
		var sum Snapshot
		if sum.Add(&h); sum.Count() != uint64(turn+1) {
			t.Fatalf("after %d turns %d answers are counted", turn+1, sum.Count())
		}
	}
	const quiet = 1 << 20
	for turn := range int64(100) { // a turn that accepts a connection, and at once another one that answers it
		for i := range int64(2) {
			s.Begins(quiet + 2*turn*quietGap + i)
			if i == 1 {
				s.Answered()
			}
			s.Ends()
		}
		var sum Snapshot
		if sum.Add(&h); sum.Count() != uint64(100+turn+1) {
			t.Fatalf("after %d connections %d answers are counted", turn+1, sum.Count()-100)
		}
	}
	s = Sampler{} // nothing to count in
	s.Begins(0)
	s.Answered()
	s.Ends()
	s.Flush()
}

// TestSamplerMeasuresTheTurn: what lies between Begins and Ends counts, also in a turn that follows one
// without answers.
func TestSamplerMeasuresTheTurn(t *testing.T) {
	var h Histogram
	s := Sampler{Histogram: &h}
	var most time.Duration // that a turn took: one that is not measured counts as long as an earlier one
	for range 100 {
		s.Begins(0)
		s.Ends()
		before := Clock()
		for Clock() < before+20*time.Microsecond {
		}
		began := Clock()
		s.Begins(0)
		for Clock() < began+time.Microsecond {
		}
		s.Answered()
		s.Ends()
		s.Flush()
		most = max(most, Clock()-began)
		var sum Snapshot
		sum.Add(&h)
		if got := time.Duration(sum.Sum() * 1e9); got > most+1 {
			t.Fatalf("a turn of less than %v was measured as %v", most, got)
		}
		h = Histogram{}
	}
}

// TestAnswersOfNames: those of a measured turn stand for those before it, and take as long as it; what a session
// waited for takes as long as that; and what a session waits for has no answer yet.
func TestAnswersOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b, c Track
		var asked Asked
		s := Sampler{Histogram: new(Histogram), Asked: &asked}
		const took = 5 * time.Millisecond
		turn := func(quiet int64, notes ...*Track) {
			s.Begins(s.last + quiet)
			time.Sleep(took)
			for _, n := range notes {
				asked.Note(n)
				s.Answered()
			}
			s.Ends()
		}
		want := func(when string, name *Track, n uint64, of, slowest time.Duration) {
			t.Helper()
			if answers, sum := name.Total(); answers != n || sum != of || name.Slowest() != slowest {
				t.Errorf("%s: %d answers took %v, at most %v, want %d, %v, %v", when, answers, sum, name.Slowest(), n, of, slowest)
			}
		}
		asked.Note(&a) // in no turn
		turn(quietGap, &a, &b, &a)
		want("a turn", &a, 2, 2*took, took)
		want("a turn", &b, 1, took, took)
		for s.wait = 2; s.wait > 0; {
			turn(0, &b, &b, &b)
		}
		turn(0, &a, &b)
		want("after two that were not measured", &a, 2+4, 6*took, took)
		want("after two that were not measured", &b, 1+4, 5*took, took)

		s.Begins(s.last + quietGap)
		asked.Note(&a)
		s.Answered()
		asked.Note(&b)
		s.Waits()
		time.Sleep(took)
		s.Ends()
		want("before one that waits", &a, 7, 7*took, took)
		want("that waits", &b, 5, 5*took, took)

		waiting := Clock()
		time.Sleep(time.Second)
		for s.wait = 2; s.wait == 2; {
			s.Begins(s.last)
		}
		s.Resumes()
		asked.Note(&b)
		s.Waits() // in vain
		asked.Note(&c)
		s.Resumes()
		asked.Note(&b)
		s.Waited(waiting)
		asked.Note(&c)
		s.Answered()
		s.Ends()
		want("that has waited", &b, 6, 5*took+time.Second, time.Second)
		want("of a turn that is not measured", &c, 0, 0, 0)
		s.Begins(s.last + quietGap)
		s.Ends()
		turn(quietGap, &c, &c)
		want("at the end", &c, 3, 3*took, took)
		if b.ForgetSlowest() != time.Second || b.Slowest() != 0 {
			t.Error("the slowest one is not forgotten")
		}
		for range 1000 {
			asked.listen(&s)
			asked.Note(&a)
			asked.Note(&b)
		}
		if len(asked.notes) != maxNotes {
			t.Errorf("%d notes", len(asked.notes))
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
