package issuer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
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

func TestMintAllocatesNothing(t *testing.T) {
	b := newTestbed(2, time.Hour, generator.Katsubushi())
	b.publish(t, 0, 1, start-1000, math.MaxInt64)
	for name, k := range b.kinds(t) {
		s, now := k.Source(1), b.now
		if n := testing.AllocsPerRun(5000, func() {
			now++ // over several seeds of random bits
			if _, err := s.Mint(id.At(now), 3, false); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// kinds returns all that issue ids of the lanes, or UUIDs.
func (b *testbed) kinds(t testing.TB) map[string]Kind {
	t.Helper()
	all := map[string]Kind{"id": b.Issuer, "another layout": mustSnowflake(t, b, generator.Instagram())}
	for _, name := range []string{kinds.UUID4, kinds.UUID7, kinds.ULID, kinds.ObjectID} {
		k, err := b.Kind(kinds.Definition{Kind: name})
		all[name] = mustKind(t, k, err)
	}
	return all
}

// The clock stands still and the run-ahead has no end, as in the generator's benchmarks. ns/op is
// per Mint, and for the text of the first id.
func BenchmarkMint(b *testing.B) {
	bed := newTestbed(1, 1<<39*time.Millisecond, generator.Katsubushi())
	if err := bed.Publish(0, 1, start-1000, math.MaxInt64); err != nil {
		b.Fatal(err)
	}
	orders := newSequenceBed()
	orders.Append(1, 1<<62)
	all := bed.kinds(b)
	all["sequence"] = orders
	for name, k := range all {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s, out := k.Source(0), make([]byte, 0, id.Room)
				b.ReportAllocs()
				for b.Loop() {
					r, err := s.Mint(id.At(start), n, n > 1)
					if err != nil {
						b.Fatal(err)
					}
					var text id.Text
					text.Start(r)
					out = text.AppendLine(out[:0])
				}
			})
		}
	}
}
