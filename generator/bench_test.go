package generator

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake/v2"
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

// How much more two lanes on two processors issue than one on one. Windows of both kinds take turns
// and the best of each count, since whatever else runs on the machine can only slow them down. Run
// it with -benchtime 2000x.
func BenchmarkTwoLanes(b *testing.B) {
	var best [3]float64 // ids a second, by the number of lanes
	for b.Loop() {
		for lanes := 1; lanes <= 2; lanes++ {
			best[lanes] = max(best[lanes], lanesRate(b, lanes))
		}
	}
	b.ReportMetric(best[1], "ids/s-of-1")
	b.ReportMetric(best[2], "ids/s-of-2")
	b.ReportMetric(best[2]/best[1], "x")
}

// lanesRate is how many ids a second so many lanes issue together, each with a goroutine of its own.
func lanesRate(b *testing.B, lanes int) float64 {
	const ids = 400_000
	var wg sync.WaitGroup
	var there atomic.Int32
	var start time.Time
	for i := range lanes {
		s := newBenchmarked(b, Katsubushi(), uint64(i))
		now, limit := Katsubushi().Epoch, Katsubushi().End()
		wg.Go(func() {
			if there.Add(1) == int32(lanes) {
				start = time.Now()
				there.Add(1)
			}
			for there.Load() <= int32(lanes) { // all begin at once, on processors that are awake
				runtime.Gosched()
			}
			for range ids {
				if _, err := s.Take(now, limit, 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(lanes*ids) / time.Since(start).Seconds()
}

// The one lane that all goroutines share, for the sake of contrast.
func BenchmarkSharedLane(b *testing.B) {
	l := Katsubushi()
	s := newBenchmarked(b, l, 1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Take(l.Epoch, l.End(), 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ids/s")
}

// The peers read the clock themselves, and wait for it: their ceilings are 4,096 ids/ms and 256 ids
// per 10 ms.
func BenchmarkPeerBwmarrin(b *testing.B) {
	n, err := snowflake.NewNode(1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n.Generate()
	}
}

func BenchmarkPeerSonyflake(b *testing.B) {
	s, err := sonyflake.New(sonyflake.Settings{
		StartTime: time.UnixMilli(Sonyflake().Epoch),
		MachineID: func() (int, error) { return 1, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.NextID(); err != nil {
			b.Fatal(err)
		}
	}
}
