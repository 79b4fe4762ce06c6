package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

func (w *world) wantFloor(want int64) {
	w.Helper()
	if m := w.server.Meta(); m.Floor != want {
		w.Errorf("the floor is %d ms from now, not %d", m.Floor-w.now(), want-w.now())
	}
}

func (w *world) wantInit(a *cas.Admin, how workerid.How, result string, is error) {
	w.Helper()
	got, err := a.Init(ctx, how)
	if got != result || !errors.Is(err, is) {
		w.Errorf("Init(%s) = %q, %v, not %q, %v", how, got, err, result, is)
	}
}

func TestInitMakesAPool(t *testing.T) {
	for _, c := range []struct {
		how    workerid.How
		result string
		floor  int64 // from now
	}{{workerid.InitWait, workerid.InitWaiting, lease + epsilon}, {workerid.InitNew, workerid.InitMade, 0},
		{workerid.InitReplace, workerid.InitWaiting, lease + epsilon}} {
		w := newWorld(t)
		a := w.admin(w.terms(0, 249)) // three commits
		w.wantInit(a, workerid.InitRepair, "", cas.ErrNotInitialised)
		w.wantInit(a, c.how, c.result, nil)
		w.wantFloor(w.now() + c.floor)
		for worker := range uint64(250) {
			if w.record(worker) != (pool.Record{}) {
				t.Fatalf("%d: %+v", worker, w.record(worker))
			}
		}
		before := w.server.Meta()
		for _, how := range []workerid.How{workerid.InitWait, workerid.InitNew, workerid.InitRepair} {
			w.wantInit(a, how, workerid.InitPresent, nil)
		}
		if w.server.Meta() != before {
			t.Errorf("%+v, and it was %+v", w.server.Meta(), before)
		}
		if _, err := a.Init(ctx, workerid.InitMigrated); err == nil || !strings.Contains(err.Error(), "migrated") {
			t.Error(err)
		}
	}
}

// A slowDriver takes a while to connect.
type slowDriver struct {
	memcas.Driver
	takes time.Duration
}

func (d *slowDriver) Connect(ctx context.Context) (string, error) {
	select {
	case <-time.After(d.takes):
		return d.Driver.Connect(ctx)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// An operator may have to log in at a busy server, which takes longer than a call of a daemon may. The command does not
// wait forever.
func TestAdminWaitsForALogin(t *testing.T) {
	for takes, waits := range map[time.Duration]bool{5 * time.Second: true, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			w, began := newWorld(t), time.Now()
			w.init(0, 3)
			c := w.config(w.terms(0, 3))
			c.Driver = &slowDriver{memcas.Driver{Server: w.server}, takes}
			a, err := cas.OpenAdmin(c)
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.List(t.Context())
			if (err == nil) != waits || time.Since(began) > time.Minute {
				t.Errorf("a connection that takes %v: %v after %v", takes, err, time.Since(began))
			}
		})
	}
}

// A pool whose meta is gone is made again: what is recorded of worker ids stays, and the floor is above
// everything that may have been granted, also by a clock that was ahead.
func TestInitKeepsRecords(t *testing.T) {
	w := newWorld(t)
	used, far := pool.Record{Mark: w.now() + 7, Lo: 5, Token: "a.1"},
		pool.Record{Mark: w.now() + 3_600_000, Lo: 5, Token: "a.2", Owner: "a"}
	w.server.SetRecord(3, used.String())
	w.wantInit(w.admin(w.terms(0, 5)), workerid.InitNew, workerid.InitMade, nil)
	if w.record(3) != used {
		t.Errorf("%+v", w.record(3))
	}
	w.wantFloor(w.now())

	w = newWorld(t)
	w.server.SetRecord(3, used.String())
	w.server.SetRecord(4, far.String())
	a := w.admin(w.terms(0, 5))
	w.wantInit(a, workerid.InitNew, "", cas.ErrHeld)
	w.wantInit(a, workerid.InitWait, workerid.InitWaiting, nil)
	w.wantFloor(far.Mark)
	if w.record(3) != used || w.record(4) != far {
		t.Errorf("%+v, %+v", w.record(3), w.record(4))
	}
}

func TestInitIsCompletedByAnotherOne(t *testing.T) {
	for done := range 4 {
		w := newWorld(t)
		c := w.config(w.terms(0, 249))
		c.Driver = &failing{memcas.Driver{Server: w.server}, done}
		broken, err := cas.OpenAdmin(c)
		if err != nil {
			t.Fatal(err)
		}
		w.wantInit(broken, workerid.InitWait, "", errLost)
		if v := w.server.Save().View(); v.Meta != "" {
			t.Fatalf("after %d commits there is a meta: %s", done, v.Meta)
		}
		w.boot += 1000
		w.wantInit(w.admin(w.terms(0, 249)), workerid.InitWait, workerid.InitWaiting, nil)
		w.wantFloor(w.now() + lease + epsilon)
	}
}

func TestOtherSettingsAreRefusedAndBothNamed(t *testing.T) {
	w := newWorld(t)
	w.init(0, 5)
	for _, terms := range []workerid.Terms{w.terms(0, 6), w.terms(1, 5),
		{Layout: "other", Min: 0, Max: 5, Lease: 30 * time.Second},
		{Layout: "t41-w10", Min: 0, Max: 5, Lease: 40 * time.Second}} {
		terms.Now = w.now
		w.wantInit(w.admin(terms), workerid.InitWait, "", workerid.ErrForeignPool)
		_, err := w.admin(terms).Init(ctx, workerid.InitNew)
		s, openErr := cas.Open(w.config(terms))
		if openErr != nil {
			t.Fatal(openErr)
		}
		t.Cleanup(func() { s.Close() })
		_, daemons := s.Acquire(ctx, workerid.Request{Owner: "a", Min: terms.Min, Max: terms.Max})
		for _, err := range []error{err, daemons} {
			if !errors.Is(err, workerid.ErrForeignPool) {
				t.Fatalf("%+v: %v", terms, err)
			}
			for _, part := range []string{"/pool/meta", "t41-w10;lease=30000ms;ids=0-5", terms.Fingerprint()} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
		}
	}
}

func TestInitReplace(t *testing.T) {
	w := newWorld(t)
	w.init(0, 1)
	d := w.daemon("a", 0, 1)
	g := d.mustAcquire()
	epoch := w.server.Meta().Epoch
	longer := w.terms(0, 3)
	longer.Lease /= 1000 // shorter, in truth: the old one must be over
	longer.Lease *= 800
	a := w.admin(longer)
	w.wantInit(a, workerid.InitReplace, "", cas.ErrHeld)
	d.driver.Close()
	w.wantInit(a, workerid.InitReplace, "", cas.ErrHeld) // its lease is not over
	w.boot += lease + 1
	w.wantInit(a, workerid.InitReplace, workerid.InitWaiting, nil)
	m := w.server.Meta()
	if m.Max != 3 || m.Lease != 24_000 || m.Epoch == epoch || w.record(g.Worker).Mark != g.Hi ||
		w.record(3) != (pool.Record{}) {
		t.Errorf("%+v", m)
	}
	w.wantFloor(w.now() + lease + epsilon)
}

func TestInitRepair(t *testing.T) {
	w := newWorld(t)
	w.init(0, 5)
	g := w.daemon("a", 0, 5).mustAcquire()
	epoch, a := w.server.Meta().Epoch, w.admin(w.terms(0, 5))
	other := (g.Worker + 1) % 6
	for i, damage := range []string{"", "2 0 0 - -", "rubbish"} {
		w.server.SetRecord(other, damage)
		if all, err := a.List(ctx); err != nil || !all[5].Using || all[5].Worker != other ||
			!strings.Contains(all[5].Note, "/pool/id/"+cas.Name(other)) {
			t.Errorf("%+v, %v", all, err)
		}
		if _, err := a.Release(ctx, other); !errors.Is(err, pool.ErrUnreadable) ||
			!strings.Contains(err.Error(), "/pool/id/000") {
			t.Error(err)
		}
		w.wantInit(a, workerid.InitRepair, workerid.InitWaiting, nil)
		m := w.server.Meta()
		if w.record(other) != (pool.Record{}) || w.record(g.Worker).Mark != g.Hi || m.Epoch == epoch {
			t.Errorf("%d: %+v, %+v, %+v", i, w.record(other), w.record(g.Worker), m)
		}
		w.wantFloor(w.now() + lease + epsilon)
		epoch = m.Epoch
		w.boot += 100
	}
}

func TestAnUnreadableMetaIsRefused(t *testing.T) {
	for _, text := range []string{"2 a 1 2", "rubbish", "1 e 1000000000000000 t 1 1 0 1"} {
		w := newWorld(t)
		w.init(0, 1)
		w.server.SetMetaText(text)
		a := w.admin(w.terms(0, 1))
		for _, how := range []workerid.How{workerid.InitWait, workerid.InitNew, workerid.InitReplace, workerid.InitRepair} {
			w.wantInit(a, how, "", pool.ErrUnreadable)
		}
		_, list := a.List(ctx)
		_, release := a.Release(ctx, 0)
		_, restored := a.Restored(ctx)
		_, acquire := w.daemon("a", 0, 1).acquire()
		for i, err := range []error{list, release, restored, acquire} {
			if !errors.Is(err, pool.ErrUnreadable) || !strings.Contains(err.Error(), "/pool/meta") ||
				!strings.Contains(err.Error(), "delete this key and run `katsubushi lease init`") {
				t.Errorf("%q, %d: %v", text, i, err)
			}
		}
		w.server.SetMetaText("") // as the error says
		w.wantInit(a, workerid.InitWait, workerid.InitWaiting, nil)
		w.wantFloor(w.now() + lease + epsilon)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	w.init(0, 5)
	d := w.daemon("a", 0, 5)
	g := d.mustAcquire()
	year := int64(365 * 24 * 3_600_000)
	order := []uint64{}
	for i := range uint64(5) { // the other ones
		order = append(order, (g.Worker+1+i)%6)
	}
	// free a moment ago
	w.server.SetRecord(order[0], pool.Record{Mark: w.now() - 1, Lo: 1, Token: "x.1"}.String())
	w.server.SetRecord(order[1], pool.Record{Mark: w.now() - year, Lo: 1, Token: "x.2"}.String())          // long ago
	w.server.SetRecord(order[2], pool.Record{Mark: w.now() + 5, Lo: 1, Token: "x.3", Owner: "b"}.String()) // crashed
	w.server.SetRecord(order[3], pool.Record{Mark: w.now() + year, Lo: 1, Token: "x.4", Owner: "c"}.String())
	all, err := w.admin(w.terms(0, 5)).List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range all {
		got = append(got, fmt.Sprintf("%d %v %s %.3f %s", l.Worker, l.Using, l.Owner, l.TTL, l.Note))
	}
	first, second := order[1], order[4] // alike, as the floor is above both: by number
	one, other := fmt.Sprintf("%d false  -3.110 ", first), fmt.Sprintf("%d false  0.000 ", second)
	if second < first {
		one, other = other, one
	}
	want := []string{
		one, other, fmt.Sprintf("%d false  -0.001 ", order[0]), fmt.Sprintf("%d true b 0.005 ", order[2]),
		fmt.Sprintf("%d true a %.3f at a:11212", g.Worker, float64(g.Hi-w.now())/1000),
		fmt.Sprintf("%d true c %.3f usable from 2028-01-15T08:00:03Z: a clock was wrong", order[3], float64(year)/1000),
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %q, not %q", i, got[i], want[i])
		}
	}
}

func TestReleaseByAnOperator(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	d := w.daemon("a", 0, 0)
	g := d.mustAcquire()
	before := w.record(0)
	freed, err := w.admin(workerid.Terms{Now: w.now}).Release(ctx, 0)
	if err != nil || freed.Owner != "a" || freed.Until.UnixMilli() != g.Hi {
		t.Errorf("%+v, %v", freed, err)
	}
	if r := w.record(0); r.Mark != before.Mark || r.Token == before.Token || r.Owner != "" {
		t.Errorf("%+v, and it was %+v", r, before)
	}
	if _, err := d.extend(g); !errors.Is(err, workerid.ErrLost) {
		t.Errorf("its owner: %v", err)
	}
	if floor := w.server.Meta().Floor; floor > w.now() {
		t.Error("the owner took it for a roll-back")
	}
	if _, err := w.admin(w.terms(0, 0)).Release(ctx, 1); err == nil || !strings.Contains(err.Error(), "0 to 0") {
		t.Error(err)
	}
}

// The floor is above everything that may have been forgotten: if the operator's clock is behind, or one
// was ahead, above all marks.
func TestRestored(t *testing.T) {
	w := newWorld(t)
	w.init(0, 5)
	epoch, a := w.server.Meta().Epoch, w.admin(w.terms(0, 5))
	if _, err := a.Restored(ctx); err != nil || w.server.Meta().Epoch == epoch {
		t.Errorf("%v", err)
	}
	w.wantFloor(w.now() + lease + epsilon)
	w.server.SetRecord(2, pool.Record{Mark: w.now() + 2*lease, Lo: 1, Token: "x.1", Owner: "b"}.String())
	w.server.SetRecord(4, "")
	report, err := a.Restored(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.wantFloor(w.now() + 2*lease)
	if r := report.(cas.FloorReport); len(r.Far) != 1 || r.Far[0] != 2 || len(r.Damaged) != 1 || r.Damaged[0] != 4 ||
		r.Floor.UnixMilli() != w.now()+2*lease {
		t.Errorf("%+v", r)
	}
	w.wrong = -3_600_000
	if _, err := a.Restored(ctx); err != nil {
		t.Fatal(err)
	}
	w.wantFloor(w.now() + 2*lease)
}

func TestResetClock(t *testing.T) { synctest.Test(t, testResetClock) } // it waits while it watches

func testResetClock(t *testing.T) {
	w := newWorld(t)
	w.init(0, 5)
	c := w.config(w.terms(0, 5))
	a, err := cas.OpenAdmin(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ResetClock(ctx); !errors.Is(err, cas.ErrFloorSteady) {
		t.Errorf("%v", err)
	}
	far := pool.Record{Mark: w.now() + 3_600_000, Lo: 1, Token: "x.1"}
	w.server.SetRecord(2, far.String())
	m := w.server.Meta()
	m.Floor = w.now() + 3_600_000
	w.server.SetMeta(m)
	report, err := a.ResetClock(ctx)
	if err != nil || w.record(2) != far || w.server.Meta().Epoch == m.Epoch {
		t.Errorf("%v, %+v", err, w.record(2))
	}
	w.wantFloor(w.now() + lease + epsilon)
	if r := report.(cas.FloorReport); r.Was.UnixMilli() != m.Floor || r.Floor.UnixMilli() != w.now()+lease+epsilon {
		t.Errorf("%+v", r)
	}

	// an operator whose clock is wrong, while holders extend
	d := w.daemon("a", 0, 5)
	g := d.mustAcquire()
	w.boot = int64(w.server.Meta().Floor - start + 1)
	g.Lo = w.record(g.Worker).Lo
	w.server.SetMeta(m)
	c.Driver = &moving{memcas.Driver{Server: w.server}, func() {
		w.boot += 10
		r := w.record(g.Worker)
		r.Mark = w.now() + lease
		w.server.SetRecord(g.Worker, r.String())
	}}
	if a, err = cas.OpenAdmin(c); err != nil {
		t.Fatal(err)
	}
	w.wrong = -10_000
	if _, err := a.ResetClock(ctx); !errors.Is(err, workerid.ErrSkew) {
		t.Errorf("%v", err)
	}
	if w.server.Meta() != m {
		t.Errorf("%+v", w.server.Meta())
	}
}

func TestStats(t *testing.T) {
	w := newWorld(t)
	w.init(0, 5)
	g := w.daemon("a", 0, 5).mustAcquire()
	w.server.SetRecord((g.Worker+1)%6, "")
	report, err := w.admin(w.terms(0, 5)).Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := report.(cas.Stats)
	if s.Held != 1 || s.UsingIDs != 2 || s.UnusingIDs != 4 || s.Damaged != 1 || s.Min != 0 || s.Max != 5 ||
		s.Fingerprint != "t41-w10;lease=30000ms;ids=0-5" {
		t.Errorf("%+v", s)
	}
}
