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

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// counting counts what is asked of a driver.
type counting struct {
	memcas.Driver
	loads, commits, most int
	down                 atomic.Bool
	connects             atomic.Int64
}

func (d *counting) Connect(ctx context.Context) (string, error) {
	d.connects.Add(1)
	if d.down.Load() {
		return "", errLost
	}
	return d.Driver.Connect(ctx)
}

func (d *counting) Load(ctx context.Context, conn string) (pool.View, error) {
	d.loads++
	return d.Driver.Load(ctx, conn)
}

func (d *counting) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	d.commits++
	d.most = max(d.most, len(c.If))
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
		if driver.commits != 3 || driver.most != cas.MaxRecords || driver.loads != 0 {
			t.Errorf("%d commits of %d records at most, %d readings", driver.commits, driver.most, driver.loads)
		}
	}
	w.server.SetRecord(held[120].Worker, pool.Record{Mark: held[120].Hi + 1, Lo: held[120].Hi + 1, Token: "x.1", Owner: "b"}.String())
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

// A Session is quiet only while nothing is due between its calls.
func TestWhatIsDueIsNotQuiet(t *testing.T) {
	w := newWorld(t)
	w.init(0, 3)
	d := w.daemon("a", 0, 3)
	barred := &barred{Driver: d.driver}
	d.Driver = barred
	quiet := func(want bool, when string) {
		t.Helper()
		if d.Quiet() != want {
			t.Errorf("%s: %v", when, !want)
		}
	}
	quiet(false, "without a lane")
	_, err := d.Acquire(ctx, d.want())
	d.wantWatching(err)
	w.boot += watch
	g, err := d.Acquire(ctx, d.want())
	if err != nil {
		t.Fatal(err)
	}
	quiet(false, "before the caller has the grant")
	d.Heard(g)
	quiet(true, "when it has")
	settled := func(when string) {
		t.Helper()
		w.boot += 1000
		g = d.mustExtend(g)
		d.Upkeep(ctx)
		quiet(true, when)
	}
	text := "here"
	d.Announced = func() map[string]string { return map[string]string{"a": text} }
	quiet(false, "before it is announced")
	settled("when it is")
	text = "there"
	quiet(false, "with another announcement")
	settled("when that is written")
	w.server.Expire()
	g = d.mustExtend(g)
	quiet(false, "in a new session")
	settled("when that has the announcement")
	w.boot += watch + 1
	quiet(false, "when a lane is not extended any more")
	w.boot -= watch + 1
	for _, barred.on = range []bool{false, true} {
		if _, err := w.admin(w.terms(0, 3)).Release(ctx, g.Worker); err != nil {
			t.Fatal(err)
		}
		if _, err := d.extend(g); !errors.Is(err, workerid.ErrLost) {
			t.Fatal(err)
		}
		quiet(false, "when it is lost")
		lost := g
		g = d.mustAcquire()
		d.Upkeep(ctx)
		quiet(false, "while what is left of its window is used")
		for w.now() <= lost.Hi+epsilon {
			w.boot += 1000
			g = d.mustExtend(g)
		}
		if d.Upkeep(ctx); barred.on {
			quiet(false, "while its presence is there")
		}
		barred.on = false
		settled("when that is over")
	}
}

// While its lanes are extended, a Store// While its lanes are extended, a Store does nothing by itself. It does again as soon as something is due.
func TestAStoreRestsWhileNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(t), time.Now()
		passed := func() int64 { return time.Since(began).Milliseconds() }
		w.server = memcas.NewServer(passed, lease/2)
		w.init(0, 3)
		driver := &counting{Driver: memcas.Driver{Server: w.server}}
		c := w.config(w.terms(0, 3))
		c.Driver, c.Boot, c.Now = driver, func() int64 { return int64(time.Since(began)) }, func() int64 { return start + passed() }
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		pass := func(d time.Duration) {
			time.Sleep(d) // of the bubble
			synctest.Wait()
		}
		var held []workerid.Grant
		for len(held) == 0 {
			g, err := s.Acquire(ctx, workerid.Request{Owner: "a", Max: 3})
			if err == nil {
				held = append(held, g)
			} else if !errors.Is(err, workerid.ErrNoneYet) {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		beat := func() error {
			results, err := s.Extend(ctx, held)
			if err == nil {
				err = results[0].Err
			}
			pass(time.Second)
			return err
		}
		rests := func() bool {
			beat()
			before := driver.connects.Load()
			pass(2 * time.Second)
			return driver.connects.Load() == before
		}
		if err := s.Announce(ctx, "a", "here"); err != nil || !rests() {
			t.Errorf("%v, or it did something between its calls", err)
		}
		w.server.Expire() // the announcement is to be made again
		if err := beat(); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		if all, err := s.Peers(ctx); err != nil || all["a"] != "here" || !rests() {
			t.Errorf("in a new session: %v, %v, or it did not rest", all, err)
		}
		driver.down.Store(true)
		for range 4 {
			if err := beat(); err == nil {
				t.Error("extended without a connection")
			}
		}
		before := driver.connects.Load()
		if pass(3 * time.Second); driver.connects.Load() < before+2 {
			t.Error("nobody tries to connect, though the lane must be watched")
		}
		driver.down.Store(false)
		for beat() != nil { // it watches
		}
		if !rests() {
			t.Error("after an outage it did not rest")
		}
		if _, err := w.admin(w.terms(0, 3)).Release(ctx, held[0].Worker); err != nil {
			t.Fatal(err)
		}
		if err := beat(); !errors.Is(err, workerid.ErrLost) {
			t.Fatal(err)
		}
		for range 3 {
			before := driver.connects.Load()
			if pass(time.Second); driver.connects.Load() == before {
				t.Error("what is left of the window is not looked after each heartbeat")
			}
		}
	})
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
	if driver.loads != 0 || driver.commits != 5 {
		t.Errorf("%d readings and %d commits in 5 heartbeats", driver.loads, driver.commits)
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
		for _, f := range s.Facts() {
			if f.Name == name && f.Help != "" {
				return f.Value
			}
		}
		t.Fatalf("no %s in %+v", name, s.Facts())
		return nil
	}
	request := workerid.Request{Owner: "a", Min: 0, Max: 5}
	if _, err := s.Acquire(ctx, request); !errors.Is(err, cas.ErrNotInitialised) || !strings.Contains(err.Error(), "/pool/meta") {
		t.Errorf("%v", err)
	}
	if texts := fact("memcas").([]workerid.Text); texts[0].Value != "memory" || texts[1].Value != "" {
		t.Errorf("%+v", texts)
	}
	w.init(0, 5)
	m := w.server.Meta()
	m.Floor = w.now() + 7000
	w.server.SetMeta(m)
	if _, err := s.Acquire(ctx, request); !errors.As(err, &cas.Watching{}) {
		t.Errorf("%v", err)
	}
	texts := fact("memcas").([]workerid.Text)
	if left := fact("memcas_watch_left").(time.Duration); left <= 0 || left > 5*time.Second || texts[1].Value != m.Epoch || fact("memcas_floor_wait") != 7*time.Second {
		t.Errorf("%v, %+v, %v", left, texts, fact("memcas_floor_wait"))
	}
	if fact("memcas_clocks") != 0 || fact("memcas_clock_ahead") != time.Duration(0) || fact("memcas_servers") != 1 {
		t.Errorf("%+v", s.Facts())
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
