package cas_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

func (d *daemon) wantWatching(err error) {
	d.w.Helper()
	var watching cas.Watching
	if !errors.As(err, &watching) || !errors.Is(err, workerid.ErrNoneYet) || watching.RetryAfter() <= 0 {
		d.w.Errorf("%s watches: %v", d.owner, err)
	}
}

// pass lets time pass in heartbeats.
func (d *daemon) pass(ms int64, g workerid.Grant) workerid.Grant {
	d.w.Helper()
	for ; ms > 0; ms -= 1000 {
		d.w.boot += min(ms, 1000)
		g = d.mustExtend(g)
	}
	return g
}

// C1: nothing is written before the watch is over; it starts over when the connection breaks, or meta
// changes.
func TestANewcomerWatches(t *testing.T) {
	for name, disturb := range map[string]func(*world){
		"nothing":          nil,
		"a new connection": func(w *world) { w.server.Break() },
		"a new meta": func(w *world) {
			m := w.server.Meta()
			m.Epoch = "x.1"
			w.server.SetMeta(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.init(0, 3)
			d := w.daemon("a", 0, 3)
			_, err := d.Acquire(ctx, d.want())
			d.wantWatching(err)
			w.boot += watch - 1
			_, err = d.Acquire(ctx, d.want())
			d.wantWatching(err)
			if disturb != nil {
				disturb(w)
			}
			w.boot++
			g, err := d.Acquire(ctx, d.want())
			if disturb == nil {
				if err != nil || g.Lo > w.now() || g.Hi != w.now()+lease {
					t.Errorf("%+v, %v", g, err)
				}
				return
			}
			d.wantWatching(err)
			w.boot += watch
			if _, err = d.Acquire(ctx, d.want()); err != nil {
				t.Error(err)
			}
		})
	}
}

// C1: a lane that has not written for W watches first, and does not bar its sibling. Its first reading
// is judged.
func TestAReturnerWatches(t *testing.T) {
	w := newWorld(t)
	w.init(0, 3)
	d := w.daemon("a", 0, 3)
	g := d.mustAcquire()
	w.boot += watch // counted from when the write was sent
	g = d.mustExtend(g)
	w.boot += watch + 1
	w.server.Break() // otherwise its first reading would be that of the acquisition
	_, err := d.extend(g)
	d.wantWatching(err)
	before := w.record(g.Worker)
	d.owner = "sibling"
	sibling, err := d.Acquire(ctx, d.want())
	d.wantWatching(err)
	w.boot += watch
	if sibling, err = d.Acquire(ctx, d.want()); err != nil || sibling.Worker == g.Worker || w.record(g.Worker) != before {
		t.Fatalf("%+v, %v", sibling, err)
	}
	d.Heard(sibling)
	results, err := d.Extend(ctx, []workerid.Grant{g, sibling})
	if err != nil || results[0].Err != nil || results[1].Err != nil || results[0].Grant.Hi != w.now()+lease {
		t.Errorf("%+v, %v", results, err)
	}
}

// C2: what may be taken, and from when on.
func TestWhatANewcomerTakes(t *testing.T) {
	present := pool.Presence{Owner: "b", Addr: "b:1"}.String()
	far := start + 10 + watch + lease + skew
	for name, c := range map[string]struct {
		record    pool.Record
		meanwhile func(*world, *memcas.Driver, string) // during the watch
		floor     int64
		lo, hi    int64 // from the present; 0, 0 = nothing
	}{
		"free": {record: pool.Record{Mark: start - 100, Lo: 5, Token: "x.1"}, lo: -100 - 10 - watch + 2,
			hi: lease},
		"the floor is higher": {record: pool.Record{Mark: start - 100, Lo: 5, Token: "x.1"}, floor: start - 50,
			lo: -50 - 10 - watch + 2, hi: lease},
		"its lease goes on": {record: pool.Record{Mark: start + 9000, Lo: 5, Token: "x.1", Owner: "b"},
			lo: 9000 - 10 - watch + 2, hi: 9000 - 10 - watch + 1},
		"a wrong clock was there": {record: pool.Record{Mark: far + 1, Lo: 5, Token: "x.1"}},
		"just not too far": {record: pool.Record{Mark: far, Lo: 5, Token: "x.1"}, lo: lease + skew + 2,
			hi: lease + skew + 1},
		"its daemon is there": {record: pool.Record{Mark: start - 100, Lo: 5, Token: "x.1", Owner: "b"},
			meanwhile: func(w *world, d *memcas.Driver, conn string) {
				d.Announce(ctx, conn, 0, present)
			}},
		"an earlier owner's daemon is there": {record: pool.Record{Mark: start - 100, Lo: 5, Token: "x.1", Owner: "c"},
			lo: -100 - 10 - watch + 2, hi: lease,
			meanwhile: func(w *world, d *memcas.Driver, conn string) { d.Announce(ctx, conn, 0, present) }},
		"it moved": {record: pool.Record{Mark: start - 100, Lo: 5, Token: "x.1", Owner: "b"},
			meanwhile: func(w *world, _ *memcas.Driver, _ string) {
				w.server.SetRecord(0, pool.Record{Mark: start - 100, Lo: 5, Token: "x.2", Owner: "b"}.String())
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.init(0, 0)
			m := w.server.Meta()
			m.Floor = c.floor
			w.server.SetMeta(m)
			w.server.SetRecord(0, c.record.String())
			d := w.daemon("a", 0, 0)
			d.Acquire(ctx, d.want())
			if c.meanwhile != nil {
				other := &memcas.Driver{Server: w.server}
				conn, _ := other.Connect(ctx)
				c.meanwhile(w, other, conn)
			}
			w.boot += watch
			g, err := d.Acquire(ctx, d.want())
			if c.lo == 0 {
				if !errors.Is(err, workerid.ErrNoID) || w.server.Record(0) == "" || strings.Contains(w.server.Record(0), " a") {
					t.Errorf("%+v, %v, %s", g, err, w.server.Record(0))
				}
				return
			}
			if err != nil || g.Lo != w.now()+c.lo || g.Hi != w.now()+c.hi {
				t.Errorf("%+v, %v: from %d to %d, not %d to %d", g, err, g.Lo-w.now(), g.Hi-w.now(), c.lo, c.hi)
			}
		})
	}
}

// C2: a reservation has no ticks until its start has come; heartbeats keep it.
func TestAReservationWaits(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	w.server.SetRecord(0, pool.Record{Mark: start + 10_000, Lo: 5, Token: "x.1", Owner: "b"}.String())
	d := w.daemon("a", 0, 0)
	g := d.mustAcquire()
	for w.now() < g.Lo {
		if g.Hi != g.Lo-1 {
			t.Fatalf("%+v at %d", g, w.now())
		}
		w.boot += 1000
		g = d.mustExtend(g)
	}
	if g.Hi != w.now()+lease || w.record(0).Lo != start+10_002 {
		t.Errorf("%+v at %d", g, w.now())
	}
}

// C3: what an own record may have become.
func TestWhatAHolderFinds(t *testing.T) {
	type found struct {
		is     error
		raised bool
	}
	for name, c := range map[string]struct {
		change func(*world, pool.Record) string
		want   found
	}{
		"as it was": {func(_ *world, r pool.Record) string { return r.String() }, found{}},
		"a stranger above it": {func(_ *world, r pool.Record) string {
			return pool.Record{Mark: r.Mark + 1, Lo: r.Mark + 2, Token: "x.1", Owner: "b"}.String()
		}, found{is: workerid.ErrLost}},
		"an operator's word": {func(_ *world, r pool.Record) string {
			return pool.Record{Mark: r.Mark, Lo: r.Lo, Token: "x.1"}.String()
		}, found{is: workerid.ErrLost}},
		"a copy of this process": {func(_ *world, r pool.Record) string {
			r.Mark++
			r.Token = "x.1"
			return r.String()
		}, found{is: workerid.ErrShared}},
		"a lower mark": {func(_ *world, r pool.Record) string {
			return pool.Record{Mark: r.Mark - 1, Lo: r.Lo, Token: "x.1", Owner: "b"}.String()
		}, found{workerid.ErrLost, true}},
		"an older own one": {func(_ *world, r pool.Record) string {
			r.Token = strings.TrimRight(r.Token, "0123456789") + "1"
			r.Mark -= 5
			return r.String()
		}, found{workerid.ErrLost, true}},
		"nothing": {func(*world, pool.Record) string { return "" }, found{workerid.ErrLost, true}},
		"a new record": {func(*world, pool.Record) string {
			return pool.Record{}.String()
		}, found{workerid.ErrLost, true}},
		"another version": {func(*world, pool.Record) string { return "2 0 0 - -" }, found{workerid.ErrLost, true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.init(0, 0)
			d := w.daemon("a", 0, 0)
			g := d.pass(2000, d.mustAcquire())
			before := w.server.Meta()
			w.boot += 1000
			w.server.SetRecord(0, c.change(w, w.record(0)))
			_, err := d.extend(g)
			after := w.server.Meta()
			if !errors.Is(err, c.want.is) || c.want.is == nil && err != nil {
				t.Errorf("%v instead of %v", err, c.want.is)
			}
			if raised := after.Epoch != before.Epoch && after.Floor == w.now()+lease+epsilon; raised != c.want.raised ||
				!raised && after != before {
				t.Errorf("%+v, and it was %+v", after, before)
			}
			if _, err := d.extend(g); c.want.is != nil && !errors.Is(err, c.want.is) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// C3: a write whose answer did not come is gone on from.
func TestALostAnswer(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	d := w.daemon("a", 0, 0)
	lossy := &lossy{Driver: d.driver}
	d.Driver = lossy
	d.Acquire(ctx, d.want())
	w.boot += watch
	lossy.next = true
	if _, err := d.Acquire(ctx, d.want()); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	w.boot += 100
	g, err := d.Acquire(ctx, d.want()) // it has it, and nobody else could
	if err != nil || g.Hi != w.now()+lease {
		t.Fatalf("%+v, %v", g, err)
	}
	d.Heard(g)
	for range 3 {
		w.boot += 500
		lossy.next = true
		if _, err := d.extend(g); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
	}
	w.boot += 500
	if g = d.mustExtend(g); g.Hi != w.now()+lease || w.server.Meta().Floor > w.now() {
		t.Errorf("%+v", g)
	}
	lossy.next = true
	if err := d.Release(ctx, g, w.now()); !errors.Is(err, errLost) {
		t.Error(err)
	}
	if r := w.record(0); r.Owner != "" || r.Mark != w.now() {
		t.Errorf("%+v", r)
	}
}

// C3: after a watch, a lane does not go on if the epoch is not that of its last acknowledged write: its
// successor may have been forgotten.
func TestAReturnerLooksAtTheEpoch(t *testing.T) {
	for _, changes := range []bool{false, true} {
		w := newWorld(t)
		w.init(0, 0)
		d := w.daemon("a", 0, 0)
		g := d.mustAcquire()
		w.boot += watch + 1
		w.server.Break()
		if changes {
			m := w.server.Meta()
			m.Epoch = "x.1"
			w.server.SetMeta(m)
		}
		_, err := d.extend(g)
		d.wantWatching(err)
		w.boot += watch
		if _, err = d.extend(g); errors.Is(err, workerid.ErrLost) != changes || !changes && err != nil {
			t.Errorf("epoch changed: %v: %v", changes, err)
		}
	}
}

// C4: while what is left of a lost window is used, the floor stays above it, whatever is restored.
func TestTheFloorIsLookedAfter(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	old := w.server.Save()
	d := w.daemon("a", 0, 0)
	g := d.pass(4000, d.mustAcquire())
	for range 3 {
		w.boot += 1000
		w.server.Restore(old)
		d.Upkeep(ctx) // of a lane that nobody extends any more, but for the first time
		d.extend(g)
		if m := w.server.Meta(); m.Floor < g.Hi {
			t.Fatalf("the floor is %d, and the window ends at %d", m.Floor, g.Hi)
		}
	}
	w.boot += g.Hi - w.now() + epsilon // by all clocks it is over now
	w.server.Restore(old)
	w.boot += watch - 1 // a restore is noticed within W
	if d.Upkeep(ctx); w.server.Meta().Floor < w.now() {
		t.Error("a restore in the last moment of the window is not told of")
	}
	if d.mustWait(g); w.server.Meta().Floor < g.Hi {
		t.Error("it was lowered")
	}
}

// mustWait lets the rest of a window pass and looks that nothing is written any more then.
func (d *daemon) mustWait(g workerid.Grant) {
	d.w.boot += g.Hi - d.w.now() + epsilon + watch + 1
	before := d.w.server.Save().View().Meta
	d.Upkeep(ctx)
	if after := d.w.server.Save().View().Meta; after != before {
		d.w.Errorf("%s, and it was %s", after, before)
	}
}

// C4: of many who were rolled back, the first raises the floor for all who notice soon after.
func TestOneRaiseIsEnoughForAll(t *testing.T) {
	const n = 40
	w := newWorld(t)
	w.init(0, n-1)
	old := w.server.Save()
	var daemons []*daemon
	var grants []workerid.Grant
	for i := range n {
		d := w.daemon(fmt.Sprint("d", i), 0, n-1)
		d.Acquire(ctx, d.want())
		daemons = append(daemons, d)
	}
	w.boot += watch
	for _, d := range daemons {
		g, err := d.Acquire(ctx, d.want())
		if err != nil {
			t.Fatal(err)
		}
		d.Heard(g)
		grants = append(grants, g)
	}
	w.boot += 1000
	w.server.Restore(old)
	epochs := map[string]bool{}
	for i, d := range daemons {
		w.boot += 100 // 4 s in all: as long as it takes, and an epsilon at most
		if _, err := d.extend(grants[i]); !errors.Is(err, workerid.ErrLost) {
			t.Fatal(err)
		}
		m := w.server.Meta()
		epochs[m.Epoch] = true
		if m.Floor < grants[i].Hi || m.Floor < w.now()+lease {
			t.Fatalf("the floor is %d ms from now", m.Floor-w.now())
		}
	}
	if len(epochs) > 5 {
		t.Errorf("%d epochs", len(epochs))
	}
	t.Logf("%d epochs for %d daemons", len(epochs), n)
}

// C5: a lease that is given back is free at once above what was issued; only soon after a write.
func TestRelease(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	d := w.daemon("a", 0, 0)
	g := d.mustAcquire()
	if err := d.Release(ctx, g, w.now()+5); err != nil {
		t.Fatal(err)
	}
	if r := w.record(0); r.Owner != "" || r.Mark != w.now()+5 || w.server.Present(0) != "" {
		t.Errorf("%+v, %q", r, w.server.Present(0))
	}
	if err := d.Release(ctx, g, w.now()+5); !errors.Is(err, workerid.ErrLost) {
		t.Errorf("twice: %v", err)
	}
	g = d.mustAcquire()
	if err := d.Release(ctx, g, g.Lo-2); err == nil {
		t.Error("below the window")
	}
	w.boot += watch + 1
	if err := d.Release(ctx, g, w.now()); !errors.Is(err, cas.ErrSilent) {
		t.Errorf("after a pause: %v", err)
	}
}

// C6: a newcomer compares its clock with those of holders whose marks move.
func TestSkew(t *testing.T) {
	for wrong, refused := range map[int64]bool{0: false, 1900: false, -1900: false, 2*skew + watch: true,
		-skew - 1000: true, 365 * 24 * 3_600_000: true} {
		w := newWorld(t)
		w.init(0, 9)
		var holders []*daemon
		var grants []workerid.Grant
		for i := range 3 {
			h := w.daemon(fmt.Sprint("h", i), 0, 9)
			grants = append(grants, h.mustAcquire())
			holders = append(holders, h)
			for j := range i {
				grants[j] = holders[j].mustExtend(grants[j])
			}
		}
		d := w.daemon("a", 0, 9)
		d.wrong = wrong
		d.Acquire(ctx, d.want())
		for range 3 {
			w.boot += watch / 3
			for i, h := range holders {
				grants[i] = h.mustExtend(grants[i])
			}
		}
		w.boot += 2
		_, err := d.Acquire(ctx, d.want())
		if errors.Is(err, workerid.ErrSkew) != refused || !refused && err != nil {
			t.Errorf("%d ms off: %v", wrong, err)
		}
		if s := d.Status(); s.Holders != 3 || s.Ahead > time.Duration(-wrong)*time.Millisecond ||
			s.Ahead < time.Duration(-wrong-watch)*time.Millisecond {
			t.Errorf("%d ms off: %+v", wrong, s)
		}
	}
}

// C6: a wrong clock that came first keeps others out, and says what helps. Once its daemon has stopped, they come in.
func TestOneWrongClockThatCameFirst(t *testing.T) {
	for _, wrong := range []int64{3_600_000, -10_000} {
		w := newWorld(t)
		w.init(0, 9)
		w.boot += 60_000 // a clock that is behind has a window too
		first := w.daemon("first", 0, 9)
		first.wrong = wrong
		g := first.mustAcquire()
		d := w.daemon("newcomer", 0, 9)
		d.wantWatching(errOf(d.Acquire(ctx, d.want())))
		g = first.pass(watch+1000, g)
		_, err := d.Acquire(ctx, d.want())
		if !errors.Is(err, workerid.ErrSkew) || !strings.Contains(err.Error(), "the median of 1 holders") ||
			!strings.Contains(err.Error(), "restart that daemon too") {
			t.Errorf("%d ms off: %v", wrong, err)
		}
		if err := first.Release(ctx, g, g.Lo); err != nil {
			t.Fatal(err)
		}
		if late := d.mustAcquire(); late.Lo > w.now()+epsilon {
			t.Errorf("%d ms off: granted %+v at %d", wrong, late, w.now())
		}
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

func errOf(_ workerid.Grant, err error) error { return err }
