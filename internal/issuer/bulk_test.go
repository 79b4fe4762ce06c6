package issuer

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

func ticksOf(ms int64) generator.Layout {
	l := generator.Katsubushi()
	l.Unit = ms
	return l
}

// hog asks for a hundred ids at a time until it is refused, and says how many it got. No time
// passes meanwhile, though it may sleep.
func (b *testbed) hog(t *testing.T, h id.Source) (ids int) {
	t.Helper()
	sleep := b.c.Sleep
	b.c.Sleep = func(time.Duration) {}
	defer func() { b.c.Sleep = sleep }()
	for {
		run, err := h.Mint(id.At(b.now), 100, true)
		var r *Refusal
		switch {
		case errors.As(err, &r) && r.Text == "id rate exceeded":
			return ids
		case err != nil:
			t.Fatal(err)
		}
		ids += run.N
	}
}

// Whatever bulk takes, a quarter of each tick is there for single ids, with any run-ahead; and bulk
// is served as fast as the layout allows.
func TestBulkLeavesRoomForSingleIDs(t *testing.T) {
	for _, c := range []struct {
		layout   generator.Layout
		runAhead time.Duration
		lanes    int
	}{
		{ticksOf(1), time.Second, 1},
		{ticksOf(1), time.Second, 3},
		{ticksOf(1), time.Millisecond, 1},
		{ticksOf(1), 0, 1},
		{ticksOf(1), 0, 3},
		{ticksOf(10), time.Second, 1},
		{ticksOf(10), 15 * time.Millisecond, 2},
		{ticksOf(1000), time.Second, 1},
		{ticksOf(1000), 300 * time.Millisecond, 1},
		{ticksOf(1000), 0, 1},
		{generator.JS53(), time.Second, 1},
		{generator.JS53(), 0, 2},
	} {
		t.Run(fmt.Sprintf("%v of %d ms, %d lanes", c.runAhead, c.layout.Unit, c.lanes), func(t *testing.T) {
			b := newTestbed(c.lanes, c.runAhead, c.layout)
			for lane := range c.lanes {
				b.publish(t, lane, uint64(lane), start-1000, math.MaxInt64)
			}
			perTick := int(c.layout.MaxSequence() + 1)
			quarter, ticks := perTick/4*c.lanes, 20
			bulk, single := 0, 0
			b.hog(t, b.Source(0))
			for range ticks {
				for ms := range c.layout.Unit {
					b.now++
					for lane := range c.lanes {
						bulk += b.hog(t, b.Source(lane))
					}
					for range quarter*int(ms+1)/int(c.layout.Unit)*9/10 - quarter*int(ms)/int(c.layout.Unit)*9/10 {
						b.mint(t, b.Source(single%c.lanes), 1)
						single++
					}
				}
			}
			if b.slept != 0 {
				t.Errorf("single ids waited %v", b.slept)
			}
			least := (ticks - 1) * perTick * c.lanes
			if c.runAhead < time.Duration(c.layout.Unit)*time.Millisecond {
				least = least * 3 / 4 // what single ids do not use of a tick is lost
			}
			if bulk+single < least {
				t.Errorf("%d ids in bulk and %d single ones, of %d", bulk, single, least)
			}
		})
	}
}

// While an extension is late, bulk leaves the end of the window to single ids; and gets all that
// there is after it.
func TestBulkDoesNotUseUpAWindowThatIsNotExtended(t *testing.T) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	g := b.publish(t, 0, 7, start-1000, start+1500)
	h := b.Source(0)
	for b.now < start+1500 { // in its last tick everybody takes what is there
		got := b.hog(t, h)
		for range 100 {
			b.mint(t, h, 1)
		}
		if b.now > start+1500-250+25 && got < perTick/2 {
			t.Fatalf("at %d bulk got %d ids", b.now-start, got)
		}
		if b.now < start+1000 && g.Position() > start+1500-250+25 {
			t.Fatalf("at %d the position is %d", b.now-start, g.Position()-start)
		}
		b.now++
	}
	if err := b.Extend(0, start+1501, start+3000); err != nil {
		t.Fatal(err)
	}
	if got := b.hog(t, h); got < 1000*perTick {
		t.Errorf("%d ids in bulk after the extension", got)
	}
}

// A window of the state file ends 500 ms past the run-ahead at least, one that was extended in
// time: bulk is not held off.
func TestBulkRunsAheadInAWindowThatIsExtendedInTime(t *testing.T) {
	b := newTestbed(1, time.Minute, generator.Katsubushi())
	b.publish(t, 0, 7, start-1000, start+60_500)
	if got, want := b.hog(t, b.Source(0)), 60_000*perTick; got < want {
		t.Errorf("%d ids of %d", got, want)
	}
}

// After a start the window lies as far ahead as anybody may go. Bulk has not to wait longer than
// single ids for that.
func TestBulkIsServedAsSoonAsSingleIDs(t *testing.T) {
	for _, unit := range []int64{1, 10, 1000} {
		b := newTestbed(1, time.Second, ticksOf(unit))
		b.publish(t, 0, 7, start+1001, math.MaxInt64)
		for b.Ready(b.now) != nil || b.Generator(0).Next() > b.now+1000 {
			b.now++
		}
		if _, err := b.Source(0).Mint(id.At(b.now), 100, true); err != nil {
			t.Errorf("ticks of %d ms: %v", unit, err)
		}
	}
}

// A loop that sleeps keeps all of its clients waiting. It does so once a turn for bulk that others
// take away meanwhile.
func TestALoopSleepsInVainOnceATurn(t *testing.T) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	b.publish(t, 0, 7, start-1000, math.MaxInt64)
	h, greedy := b.Source(0), b.source(0)
	b.c.Sleep = func(d time.Duration) {
		b.slept += d
		b.now += d.Milliseconds()
		b.hog(t, greedy)
	}
	b.hog(t, greedy)
	turn := b.now
	for range 100 {
		if _, err := h.Mint(id.At(turn), 100, true); err == nil {
			t.Fatal("others took everything, and yet there were ids")
		}
	}
	if b.slept == 0 || b.slept > MaxWait {
		t.Errorf("slept %v", b.slept)
	}
	if _, err := h.Mint(id.At(b.now), 100, true); err == nil || b.slept != 2*MaxWait {
		t.Errorf("slept %v in two turns: %v", b.slept, err)
	}
}

// Bulk sleeps for its next tick if that is near, and not for what the clock does not bring.
func TestBulkSleepsForItsNextTick(t *testing.T) {
	for _, c := range []struct {
		unit, at, hi int64 // at: ms past the start, which is that of a tick
		want         time.Duration
		served       bool
	}{
		{1, 0, math.MaxInt64, time.Millisecond, true},
		{10, 3, math.MaxInt64, 0, false},
		{10, 7, math.MaxInt64, 0, false},
		{10, 8, math.MaxInt64, 2 * time.Millisecond, true},
		{10, 9, math.MaxInt64, time.Millisecond, true},
		{1, 0, start + 1100, 0, false}, // the run-ahead reaches the end of the window
	} {
		b := newTestbed(1, time.Second, ticksOf(c.unit))
		b.publish(t, 0, 7, start-1000, c.hi)
		b.now += c.at
		h := b.Source(0)
		b.hog(t, b.source(0))
		_, err := h.Mint(id.At(b.now), 100, true)
		if (err == nil) != c.served || b.slept != c.want {
			t.Errorf("ticks of %d ms, at %d: slept %v, %v", c.unit, c.at, b.slept, err)
		}
	}
}

// The system may stop a thread between its look at the clock and its look at the lane, for longer
// than the run-ahead reaches then.
func TestAThreadThatWasStoppedIsNotRefused(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		b := newTestbed(1, time.Second, generator.Katsubushi())
		g := b.publish(t, 0, 7, start-1000, math.MaxInt64)
		if _, err := g.Take(start+1050, start+1050, 1); err != nil {
			t.Fatal(err)
		}
		looks := 0
		b.c.Now = func() int64 {
			if looks++; looks > 1 {
				return start + 60
			}
			return start
		}
		if _, err := b.Source(0).Mint(id.At(start), 2, bulk); err != nil || b.slept != 0 {
			t.Errorf("bulk %v: %v after %v", bulk, err, b.slept)
		}
	}
}

// A wait that nothing ends must not be slept, whatever was slept before it.
func TestNobodyWaitsForWhatNeverComes(t *testing.T) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	g := b.publish(t, 0, 7, start-1000, start+1000)
	for range 1000 {
		b.mint(t, b.Source(0), perTick)
	}
	b.now-- // the last tick of the window is out of reach for a millisecond
	sleep := b.c.Sleep
	b.c.Sleep = func(d time.Duration) {
		if sleep(d); d > MaxWait {
			t.Fatalf("slept %v", d)
		}
		g.Take(b.now, start+1000, perTick) // another loop is first
	}
	if _, err := b.Source(0).Mint(id.At(b.now), 1, false); err == nil || err.Error() != "id rate exceeded" {
		t.Error(err)
	}
}
