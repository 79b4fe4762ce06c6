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

func TestALaneRunsAheadAndThenSleepsUntilTheNextTick(t *testing.T) {
	b := newTestbed(1, 10*time.Millisecond, generator.Katsubushi())
	b.publish(t, 0, 7, start-1000, math.MaxInt64)
	h := b.Source(0)
	for range 11 { // the present tick and the ten that it may run ahead
		if _, got := b.mint(t, h, perTick); got != perTick {
			t.Fatalf("got %d ids", got)
		}
	}
	if b.slept != 0 {
		t.Fatalf("slept %v with ids left", b.slept)
	}
	first, _ := b.mint(t, h, 1)
	if b.slept != time.Millisecond {
		t.Fatalf("slept %v", b.slept)
	}
	if p := generator.Katsubushi().Decompose(first); p.Time.UnixMilli() != start+11 || p.Sequence != 0 {
		t.Fatalf("%+v", p)
	}
}

// A loop's turn may last long, on a host that is short of processors or because Mint itself slept,
// while other loops issue.
func TestTheClockIsReadAgainBeforeRefusing(t *testing.T) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	g := b.publish(t, 0, 7, start-1000, math.MaxInt64)
	turn := b.now
	b.now += 300
	if _, err := g.Take(b.now+1000, b.now+1000, perTick); err != nil {
		t.Fatal(err)
	}
	b.now += 2
	if _, err := b.Source(0).Mint(id.At(turn), 1, false); err != nil {
		t.Fatal(err)
	}
	if b.slept != 0 {
		t.Errorf("slept %v", b.slept)
	}
}

func TestOrderOfChoice(t *testing.T) {
	b := newTestbed(3, time.Second, generator.Katsubushi())
	for lane := range 3 {
		b.publish(t, lane, uint64(lane+1), start-1000, math.MaxInt64)
	}
	h := b.Source(1)
	var workers []uint64
	for range 5 {
		first, _ := b.mint(t, h, perTick)
		workers = append(workers, generator.Katsubushi().Decompose(first).Worker)
	}
	// home, then the others while they stand at the present, then home ahead of the clock
	for i, want := range []uint64{2, 3, 1, 2, 2} {
		if workers[i] != want {
			t.Fatalf("workers %v", workers)
		}
	}
}

// The id clock does not go back below the ids of a lease that was lost, either.
func TestThePositionOutlivesAReplacedGenerator(t *testing.T) {
	b := newTestbed(2, time.Second, generator.Katsubushi())
	b.publish(t, 0, 7, start-1000, start+60000)
	for range 300 {
		b.mint(t, b.Source(0), perTick)
	}
	last := b.Position()
	if last < start+200 || last > start+1000 {
		t.Fatalf("after 300 ticks of ids the position is %d", last-start)
	}
	b.publish(t, 0, 8, start-1000, math.MaxInt64)
	if got := b.Position(); got != last {
		t.Errorf("%d, not %d", got-start, last-start)
	}
	// A window ahead of the clock had no ids: it does not count any more when it is replaced.
	b.publish(t, 1, 9, start+3_600_000, math.MaxInt64)
	b.publish(t, 1, 10, start-1000, math.MaxInt64)
	if got := b.Position(); got < last || got > start+1000 {
		t.Errorf("%d", got-start)
	}
}

func TestRefusals(t *testing.T) {
	tenMs := generator.Katsubushi()
	tenMs.Unit = 10
	for _, c := range []struct {
		name   string
		layout generator.Layout
		set    func(t *testing.T, b *testbed)
		want   Refusal
	}{
		{"no generator", generator.Katsubushi(), func(*testing.T, *testbed) {}, Refusal{NoWorkerID, "no worker id yet"}},
		{"sealed", generator.Katsubushi(), func(t *testing.T, b *testbed) {
			b.publish(t, 0, 1, start, start+1000).Seal()
		}, Refusal{NoWorkerID, "no worker id yet"}},
		{"window over", generator.Katsubushi(), func(t *testing.T, b *testbed) {
			b.publish(t, 0, 1, start-60000, start-12000)
		}, Refusal{LeaseExpired, "lease expired 12s ago"}},
		{"window used up ahead of the clock", generator.Katsubushi(), func(t *testing.T, b *testbed) {
			g := b.publish(t, 0, 1, start-60000, start+100)
			for {
				if _, err := g.Take(b.now, b.now+1000, perTick); err != nil {
					return
				}
			}
		}, Refusal{RateExceeded, "id rate exceeded"}},
		{"clock behind", generator.Katsubushi(), func(t *testing.T, b *testbed) {
			g := b.publish(t, 0, 1, start-60000, math.MaxInt64)
			if _, err := g.Take(b.now+3200, b.now+3200, perTick); err != nil {
				t.Fatal(err)
			}
		}, Refusal{ClockBehind, "clock 3.2s behind the last id"}},
		{"rate", tenMs, func(t *testing.T, b *testbed) {
			g := b.publish(t, 0, 1, start-60000, math.MaxInt64)
			for range 101 { // the present tick and a run-ahead's worth
				if _, err := g.Take(b.now, b.now+1000, perTick); err != nil {
					t.Fatal(err)
				}
			}
		}, Refusal{RateExceeded, "id rate exceeded"}},
		{"end of time", generator.Layout{Epoch: start - 1<<20, Unit: 1, TimeBits: 10, WorkerBits: 10, SequenceBits: 12},
			func(t *testing.T, b *testbed) {
				b.publish(t, 0, 1, start-1<<20, math.MaxInt64)
			}, Refusal{TimeFieldEnd, "the time field of the id layout ended 2027-01-15"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTestbed(1, time.Second, c.layout)
			c.set(t, b)
			_, err := b.Source(0).Mint(id.At(b.now), 1, false)
			if r, ok := err.(*Refusal); !ok || *r != c.want {
				t.Fatalf("%v, want %q", err, c.want.Text)
			}
			if b.slept > MaxWait {
				t.Errorf("slept %v", b.slept)
			}
			if got := b.Refused(c.want.Reason); got != 1 {
				t.Errorf("counted %d", got)
			}
			if err := b.Ready(b.now); err == nil || err.Error() != c.want.Text {
				t.Errorf("Ready: %v", err)
			}
		})
	}
}

func TestReadyWhileOneLaneIssues(t *testing.T) {
	b := newTestbed(2, time.Second, generator.Katsubushi())
	b.publish(t, 0, 1, start-60000, start-1)
	b.publish(t, 1, 2, start-60000, start+1000)
	if err := b.Ready(b.now); err != nil {
		t.Fatal(err)
	}
	first, _ := b.mint(t, b.Source(0), 1)
	if w := generator.Katsubushi().Decompose(first).Worker; w != 2 {
		t.Fatalf("worker %d", w)
	}
}

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

func TestALaneIsExtendedAndSealed(t *testing.T) {
	b := newTestbed(1, 0, generator.Katsubushi())
	if err := b.Extend(0, start, start+1); err == nil {
		t.Error("an empty lane was extended")
	}
	if err := b.Publish(0, 1024, start, start); err == nil {
		t.Error("worker id 1024 was published")
	}
	b.publish(t, 0, 7, start+1, start+1)
	if b.Position() != 0 {
		t.Errorf("position %d of a lane whose window lies ahead", b.Position())
	}
	b.publish(t, 0, 7, start-10, start-1)
	if b.Ready(b.now) == nil {
		t.Error("ready past the window")
	}
	if err := b.Extend(0, start, start+9); err != nil {
		t.Fatal(err)
	}
	b.mint(t, b.Source(0), 1)
	if last := b.Seal(0); last != start || b.Position() != start {
		t.Errorf("sealed at %d, position %d, want %d", last, b.Position(), start)
	}
	if _, err := b.Source(0).Mint(id.At(b.now), 1, false); err == nil {
		t.Error("an id after Seal")
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
