package issuer

import (
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// A testbed is an issuer on a clock that only sleeping and the test move.
type testbed struct {
	*Issuer
	now   int64
	slept time.Duration
}

const start = int64(1_800_000_000_000)

func newTestbed(lanes int, runAhead time.Duration, l generator.Layout) *testbed {
	b := &testbed{now: start}
	b.Issuer = New(Config{
		Lanes: lanes, RunAhead: runAhead, Layout: l,
		Now: func() int64 { return b.now },
		Sleep: func(d time.Duration) {
			b.slept += d
			b.now += d.Milliseconds()
		},
	})
	return b
}

func (b *testbed) publish(t *testing.T, lane int, worker uint64, lo, hi int64) *generator.Snowflake {
	t.Helper()
	if err := b.Publish(lane, worker, lo, hi); err != nil {
		t.Fatal(err)
	}
	return b.Generator(lane)
}

func (b *testbed) mint(t *testing.T, h id.Source, n int) (first uint64, got int) {
	t.Helper()
	run, err := h.Mint(id.At(b.now), n, false)
	if err != nil {
		t.Fatal(err)
	}
	return run.First, run.N
}

const perTick = 4096

func TestManyHandlersNeverShareAnID(t *testing.T) {
	b := newTestbed(2, time.Hour, generator.Katsubushi())
	b.publish(t, 0, 1, start-1000, math.MaxInt64)
	b.publish(t, 1, 2, start-1000, math.MaxInt64)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for loop := range 4 {
		wg.Go(func() {
			h := b.Source(loop)
			var ids []uint64
			for i := range 2000 {
				run, err := h.Mint(id.At(start), 1+i%7, i%7 > 0)
				if err != nil {
					t.Error(err)
					return
				}
				for k := range run.N {
					ids = append(ids, run.First+uint64(k)*run.Stride)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				if seen[id] {
					t.Errorf("id %d twice", id)
				}
				seen[id] = true
			}
		})
	}
	wg.Wait()
}

func TestMintAllocatesNothing(t *testing.T) {
	b := newTestbed(2, time.Hour, generator.Katsubushi())
	b.publish(t, 0, 1, start-1000, math.MaxInt64)
	h := b.Source(1)
	if n := testing.AllocsPerRun(1000, func() { b.mint(t, h, 3) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// The clock stands still and the run-ahead has no end, as in the generator's benchmarks. ns/op is
// per Mint.
func BenchmarkMint(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			bed := newTestbed(1, 1<<39*time.Millisecond, generator.Katsubushi())
			if err := bed.Publish(0, 1, start-1000, math.MaxInt64); err != nil {
				b.Fatal(err)
			}
			h := bed.Source(0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Mint(id.At(start), n, n > 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
