package generator

import (
	"testing"
	"time"
)

// The clock of these benchmarks stands still and the limit is the end of the window, so that what
// is measured is Take and not the wait for the next tick, which is all that a generator does once a
// millisecond's ids are gone.

func benchmarkTake(b *testing.B, l Layout, n int) {
	s := newBenchmarked(b, l, 1)
	now, limit := l.Epoch, l.End()
	b.ReportAllocs()
	for ids := 0; ids < b.N; {
		r, err := s.Take(now, limit, min(n, b.N-ids))
		if err != nil {
			b.Fatal(err)
		}
		ids += r.N
	}
}

func newBenchmarked(b *testing.B, l Layout, worker uint64) *Snowflake {
	s, err := NewSnowflake(Options{Layout: l, Worker: worker, Lo: l.Epoch, Hi: l.End() - 1})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// ns/op is per id in all of them.
func BenchmarkTake1(b *testing.B)          { benchmarkTake(b, Katsubushi(), 1) }
func BenchmarkTake100(b *testing.B)        { benchmarkTake(b, Katsubushi(), 100) }
func BenchmarkTake1Sonyflake(b *testing.B) { benchmarkTake(b, Sonyflake(), 1) }

func benchmarkSequence(b *testing.B, n int) {
	s := NewSequence(1, func() {})
	if err := s.Append(1, 1<<62); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for ids := 0; ids < b.N; {
		r, err := s.Take(min(n, b.N-ids))
		if err != nil {
			b.Fatal(err)
		}
		ids += r.N
	}
}

func BenchmarkSequence1(b *testing.B)   { benchmarkSequence(b, 1) }
func BenchmarkSequence100(b *testing.B) { benchmarkSequence(b, 100) }

// With the clock read for every id, as a library's user would do it.
func BenchmarkTakeClock(b *testing.B) {
	s := newBenchmarked(b, Katsubushi(), 1)
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now().UnixMilli()
		if _, err := s.Take(now, now+1<<40, 1); err != nil {
			b.Fatal(err)
		}
	}
}
