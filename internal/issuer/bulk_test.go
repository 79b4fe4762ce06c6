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
