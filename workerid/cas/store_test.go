package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// counting counts what is asked of a driver.
type counting struct {
	memcas.Driver
	loads, commits, most atomic.Int64
	down                 atomic.Bool
}

func (d *counting) Connect(ctx context.Context) (string, error) {
	if d.down.Load() {
		return "", errLost
	}
	return d.Driver.Connect(ctx)
}

func (d *counting) Load(ctx context.Context, conn string) (pool.View, error) {
	d.loads.Add(1)
	return d.Driver.Load(ctx, conn)
}

func (d *counting) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	d.commits.Add(1)
	d.most.Store(max(d.most.Load(), int64(len(c.If))))
	return d.Driver.Commit(ctx, conn, c)
}

// All lanes are extended in as few commits as their number allows, without reading anything.
func TestManyLanes(t *testing.T) {
	const n = 250
	w := newWorld(t)
	w.init(0, n-1)
	d := w.daemon("a", 0, n-1)
	driver := &counting{Driver: memcas.Driver{Server: w.server}}
	d.Driver = driver
	held := []workerid.Grant{d.mustAcquire()}
	for i := 1; i < n; i++ {
		d.owner = fmt.Sprint("a", i)
		g, err := d.Acquire(ctx, d.want())
		if err != nil {
			t.Fatal(err)
		}
		d.Heard(g)
		held = append(held, g)
	}
	for range 3 {
		*driver = counting{Driver: driver.Driver}
		w.boot += 1000
		results, err := d.Extend(ctx, held)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Err != nil || r.Grant.Hi != w.now()+lease {
				t.Fatalf("lane %d: %+v", i, r)
			}
			held[i].Hi = r.Grant.Hi
		}
		if driver.commits.Load() != 3 || driver.most.Load() != cas.MaxRecords || driver.loads.Load() != 0 {
			t.Errorf("%d commits of %d records at most, %d readings", driver.commits.Load(), driver.most.Load(),
				driver.loads.Load())
		}
	}
	w.server.SetRecord(held[120].Worker,
		pool.Record{Mark: held[120].Hi + 1, Lo: held[120].Hi + 1, Token: "x.1", Owner: "b"}.String())
	w.boot += 1000
	results, err := d.Extend(ctx, held)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if errors.Is(r.Err, workerid.ErrLost) != (i == 120) || i != 120 && r.Err != nil {
			t.Errorf("lane %d: %+v", i, r)
		}
	}
}

// An idle Store commits once a heartbeat and does nothing else, and does not forget what is due.
func TestAnIdleStoreOnlyExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(t), time.Now()
		passed := func() int64 { return time.Since(began).Milliseconds() }
		w.server = memcas.NewServer(passed, lease/2)
		w.init(0, 3)
		driver := &counting{Driver: memcas.Driver{Server: w.server}}
		c := w.config(w.terms(0, 3))
		c.Driver, c.Now = driver, func() int64 { return start + passed() }
		c.Boot = func() int64 { return int64(time.Since(began)) }
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var held []workerid.Grant
		beat := func(beats int) (commits int64, err error) { // of the heartbeats, and the last one's error
			before := driver.commits.Load()
			for range beats {
				results, e := s.Extend(ctx, held)
				if err = e; err == nil {
					err = results[0].Err
				}
				time.Sleep(time.Second) // of the bubble
				synctest.Wait()
			}
			return driver.commits.Load() - before, err
		}
		for len(held) == 0 {
			if g, err := s.Acquire(ctx, workerid.Request{Owner: "a", Max: 3}); err == nil {
				held = append(held, g)
			} else if !errors.Is(err, workerid.ErrNoneYet) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := s.Announce(ctx, "a", "here"); err != nil {
			t.Fatal(err)
		}
		beat(2)
		if commits, err := beat(50); commits != 50 || err != nil || driver.loads.Load() > 10 {
			t.Errorf("idle: %d commits in 50 heartbeats, %v", commits, err)
		}
		w.server.Expire()
		beat(3)
		if all, err := s.Peers(ctx); err != nil || all["a"] != "here" {
			t.Errorf("in a new session: %v, %v", all, err)
		}
		if commits, err := beat(50); commits != 50 || err != nil {
			t.Errorf("idle in a new session: %d commits in 50 heartbeats, %v", commits, err)
		}
		if _, err := w.admin(w.terms(0, 3)).Release(ctx, held[0].Worker); err != nil {
			t.Fatal(err)
		}
		if _, err := beat(1); !errors.Is(err, workerid.ErrLost) {
			t.Fatal(err)
		}
		if commits, _ := beat(10); commits < 10 {
			t.Errorf("%d looks in 10 heartbeats at what is left of a lost window", commits)
		}
	})
}

func TestWhatKeepsASessionFromBeingIdle(t *testing.T) {
	w := newWorld(t)
	w.init(0, 3)
	d := w.daemon("a", 0, 3)
	want := map[string]string{}
	d.Announced = func() map[string]string { return want }
	g := d.mustAcquire()
	idle := func(after string, want bool) {
		t.Helper()
		g = d.mustExtend(g)
		if d.Idle() != want {
			t.Errorf("after %s: idle is %v", after, !want)
		}
	}
	idle("an extension", true)
	if w.boot += watch/4 + 1; d.Idle() {
		t.Error("idle, though the lane is to be extended")
	}
	d.owner = "b"
	second := d.mustAcquire()
	d.owner = "a"
	w.boot += watch/4 + 1
	idle("an extension of one lane of two", false)
	if err := d.Release(ctx, second, second.Lo-1); err != nil {
		t.Fatal(err)
	}
	idle("a release", true)
	want["x"] = "text"
	idle("a new announcement", false)
	d.Upkeep(ctx)
	idle("announcing it", true)
	want["x"] = "other text"
	idle("a change of the announcement", false)
	d.Upkeep(ctx)
	w.server.Expire()
	idle("the end of its session", false)
	d.Upkeep(ctx)
	idle("announcing it anew", true)

	d.owner = "b"
	second = d.mustAcquire()
	d.owner = "a"
	d.Driver = &failing{Driver: *d.driver}
	d.Release(ctx, second, second.Lo-1)
	d.Driver = d.driver
	idle("a release without an answer", false)
	d.Upkeep(ctx)
	idle("the deletion of its presence", true)

	d.owner = "b"
	second = d.mustAcquire()
	if _, err := w.admin(w.terms(0, 3)).Release(ctx, second.Worker); err != nil {
		t.Fatal(err)
	}
	if _, err := d.extend(second); !errors.Is(err, workerid.ErrLost) {
		t.Fatal(err)
	}
	d.owner = "a"
	d.Upkeep(ctx) // deletes its presence
	idle("the loss of a lease", false)
	for range (lease+epsilon+watch)/1000 + 1 {
		w.boot += 1000
		g = d.mustExtend(g)
		d.Upkeep(ctx)
	}
	idle("the end of its window", true)
}

// What is left of a lost window is looked after without reading the pool.
func TestNothingIsReadWhileALaneDrains(t *testing.T) {
	w := newWorld(t)
	w.init(0, 3)
	d := w.daemon("a", 0, 3)
	driver := &counting{Driver: memcas.Driver{Server: w.server}}
	d.Driver = driver
	g := d.mustAcquire()
	if _, err := w.admin(w.terms(0, 3)).Release(ctx, g.Worker); err != nil {
		t.Fatal(err)
	}
	w.boot += 1000
	if _, err := d.extend(g); !errors.Is(err, workerid.ErrLost) {
		t.Fatal(err)
	}
	*driver = counting{Driver: driver.Driver}
	for range 5 {
		w.boot += 1000
		d.Upkeep(ctx)
	}
	if driver.loads.Load() != 0 || driver.commits.Load() != 5 {
		t.Errorf("%d readings and %d commits in 5 heartbeats", driver.loads.Load(), driver.commits.Load())
	}
	if p := w.server.Present(g.Worker); p != "" {
		t.Errorf("its presence is still there: %q", p)
	}
}

func TestAStoreDescribesItself(t *testing.T) {
	w := newWorld(t)
	s, err := cas.Open(w.config(w.terms(0, 5)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	fact := func(name string) any {
		t.Helper()
		var value any
		s.Figures(func(f figure.Figure) {
			if f.Name() == "lease_"+name {
				value = f.Value
			}
		})
		if value == nil {
			t.Fatalf("no %s", name)
		}
		return value
	}
	request := workerid.Request{Owner: "a", Min: 0, Max: 5}
	if _, err := s.Acquire(ctx, request); !errors.Is(err, cas.ErrNotInitialised) ||
		!strings.Contains(err.Error(), "/pool/meta") {
		t.Errorf("%v", err)
	}
	if fact("memcas_addr") != "memory" || fact("memcas_epoch") != "" {
		t.Error(fact("memcas_addr"), fact("memcas_epoch"))
	}
	w.init(0, 5)
	m := w.server.Meta()
	m.Floor = w.now() + 7000
	w.server.SetMeta(m)
	if _, err := s.Acquire(ctx, request); !errors.As(err, &cas.Watching{}) {
		t.Errorf("%v", err)
	}
	if left := fact("memcas_watch_left").(time.Duration); left <= 0 || left > 5*time.Second ||
		fact("memcas_epoch") != m.Epoch || fact("memcas_floor_wait") != 7*time.Second {
		t.Errorf("%v, %v, %v", left, fact("memcas_epoch"), fact("memcas_floor_wait"))
	}
	if fact("memcas_clocks") != 0 || fact("memcas_clock_ahead") != time.Duration(0) || fact("memcas_servers") != 1 {
		t.Error("clocks, or servers")
	}
	if c := s.Figures(func(figure.Figure) {}); c != (workerid.Condition{FloorWait: 7 * time.Second}) {
		t.Errorf("%+v", c)
	}
}

// A pool that is not there is made, with a floor, if the daemon may do so.
func TestAutoInit(t *testing.T) {
	w := newWorld(t)
	a, b := w.daemon("a", 0, 5), w.daemon("b", 0, 5)
	a.AutoInit, b.AutoInit = true, true
	_, err := a.Acquire(ctx, a.want())
	a.wantWatching(err)
	w.wantFloor(w.now() + lease + epsilon)
	made := w.server.Meta()
	w.boot += 500
	_, err = b.Acquire(ctx, b.want())
	b.wantWatching(err)
	if w.server.Meta() != made {
		t.Error("it was made twice")
	}
	if g, err := b.acquire(); err != nil || g.Lo != made.Floor+2 || g.Hi != g.Lo-1 {
		t.Errorf("%+v, %v", g, err)
	}
}

// An announcement is made again in a new session, also if the store was away when it was wanted.
func TestAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		driver := &counting{Driver: memcas.Driver{Server: w.server}}
		driver.down.Store(true)
		c := w.config(w.terms(0, 5))
		c.Driver = driver
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		other := w.admin(w.terms(0, 5))
		w.init(0, 5)
		peers := func() string {
			all, err := (&memcas.Driver{Server: w.server}).Peers(ctx, w.server.Dial())
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(all)
		}
		if err := s.Announce(ctx, "host-1.a_b", "one"); !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		driver.down.Store(false)
		time.Sleep(5 * time.Second) // of the bubble
		synctest.Wait()
		if got := peers(); got != "map[host-1.a_b:one]" {
			t.Errorf("after an outage: %s", got)
		}
		w.server.Expire()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := peers(); got != "map[host-1.a_b:one]" {
			t.Errorf("in a new session: %s", got)
		}
		if all, err := s.Peers(ctx); err != nil || fmt.Sprint(all) != "map[host-1.a_b:one]" {
			t.Errorf("%v, %v", all, err)
		}
		if err := s.Announce(ctx, "host-1.a_b", "two"); err != nil || peers() != "map[host-1.a_b:two]" {
			t.Errorf("%v, %s", err, peers())
		}
		stranger := &memcas.Driver{Server: w.server}
		if err := stranger.Publish(ctx, w.server.Dial(), "host-1.a_b", "another's"); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Peers(ctx); err != nil || fmt.Sprint(all) != "map[host-1.a_b:another's]" {
			t.Errorf("%v, %v", all, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := peers(); got != "map[host-1.a_b:two]" {
			t.Errorf("after somebody wrote over it: %s", got)
		}
		if err := s.Announce(ctx, "host-1.a_b", ""); err != nil || peers() != "map[]" {
			t.Errorf("%v, %s", err, peers())
		}
		for _, name := range []string{"", ".", "..", "a/b", "a b", strings.Repeat("a", 101), "é"} {
			if err := s.Announce(ctx, name, "x"); err == nil {
				t.Errorf("%q", name)
			}
		}
		if err := s.Announce(ctx, "a", strings.Repeat("x", 4097)); err == nil {
			t.Error("a long one")
		}
		other.Close()
	})
}
