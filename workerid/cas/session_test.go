package cas_test

import (
	"context"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// The first records are read long before the last: a holder that wrote meanwhile and then no more has a clock that is
// right.
func TestSkewOfASlowReading(t *testing.T) {
	w := newWorld(t)
	w.init(0, 9)
	h, d := w.daemon("h", 0, 9), w.daemon("a", 0, 9)
	g, first := h.mustAcquire(), true
	d.Driver = hooked(w.server, func(_ context.Context, what string, call func() error) error {
		err := call()
		if what == "read" && first {
			first = false
			w.boot += 100
			h.mustExtend(g)
			w.boot += 3 * skew
		}
		return err
	})
	if _, err := d.acquire(); err != nil || d.Status().Holders != 1 {
		t.Errorf("%v; %+v", err, d.Status())
	}
}

// Why C6 refuses for a single holder: were the newcomer let in beside a clock that is ahead, its raise after a
// restore would not cover the other one's window, whose worker id is then granted once more from below its end.
func TestTwoClocksInOnePoolCannotBearWitness(t *testing.T) {
	w := newWorld(t)
	w.init(0, 9)
	empty := w.server.Save()
	ahead, relaxed, next := w.daemon("ahead", 3, 3), w.daemon("relaxed", 0, 9), w.daemon("next", 3, 3)
	for _, d := range []*daemon{ahead, next} {
		d.Pool.Min, d.Pool.Max = 0, 9
	}
	ahead.wrong = 3_600_000
	relaxed.Rules = pool.Rules{W: time.Duration(watch) * time.Millisecond, MaxSkew: 1e15}
	only := func(d *daemon) workerid.Grant {
		t.Helper()
		want := workerid.Request{Owner: d.owner, Min: 3, Max: 3}
		g, err := d.Acquire(ctx, want)
		for n := 0; n < 100 && err != nil; n++ {
			w.boot += watch
			g, err = d.Acquire(ctx, want)
		}
		if err != nil {
			t.Fatalf("%s: %v", d.owner, err)
		}
		d.Heard(g)
		return g
	}
	lost := only(ahead)
	witness := relaxed.mustAcquire()
	w.server.Restore(empty)
	w.boot += 1000
	if _, err := relaxed.extend(witness); err == nil {
		t.Fatal("the restore was not noticed")
	}
	relaxed.Upkeep(ctx)
	if again := only(next); again.Lo > lost.Hi {
		t.Errorf("granted %+v after %+v: one clock is not enough to refuse any more, and C6 may be relaxed", again, lost)
	}
}
