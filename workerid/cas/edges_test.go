package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

func TestARangeThatIsEmptyIsNamed(t *testing.T) {
	w := newWorld(t)
	w.init(0, 9)
	d := w.daemon("a", 0, 9)
	_, err := d.Acquire(ctx, workerid.Request{Owner: "a", Min: 5, Max: 3})
	if err == nil || !strings.Contains(err.Error(), "from 5 to 3") {
		t.Errorf("%v", err)
	}
}

// A newcomer reads the pool when its watch begins and when it is over, however often it asks meanwhile.
func TestAWatchIsTwoReadings(t *testing.T) {
	w := newWorld(t)
	w.init(0, 3)
	d := w.daemon("a", 0, 3)
	driver := &counting{Driver: memcas.Driver{Server: w.server}}
	d.Driver = driver
	for range 10 {
		_, err := d.Acquire(ctx, d.want())
		d.wantWatching(err)
		w.boot += watch / 10
	}
	if _, err := d.Acquire(ctx, d.want()); err != nil || driver.loads.Load() != 2 {
		t.Errorf("%v, after %d readings", err, driver.loads.Load())
	}
}

// A lane does not take what another lane of its daemon holds, though nothing is present in a session that
// has ended.
func TestALaneLeavesItsSiblingsWorkerID(t *testing.T) {
	w := newWorld(t)
	w.init(7, 7)
	d := w.daemon("a", 7, 7)
	d.mustAcquire()
	w.server.Expire()
	d.owner = "b"
	if g, err := d.acquire(); err == nil {
		t.Errorf("it took %+v", g)
	}
}

// An acquisition whose answer was lost is not gone on from under another epoch.
func TestALostAcquisitionOfAnotherEpoch(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	d := w.daemon("a", 0, 0)
	lost := &lossy{Driver: d.driver}
	d.Driver = lost
	_, err := d.Acquire(ctx, d.want())
	d.wantWatching(err)
	w.boot += watch
	lost.next = true
	if _, err := d.Acquire(ctx, d.want()); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	m := w.server.Meta()
	m.Epoch, m.Floor = "another", w.now()+lease+epsilon
	w.server.SetMeta(m)
	if g, err := d.acquire(); err != nil || g.Lo <= m.Floor {
		t.Errorf("%+v, %v; the floor is %d", g, err, m.Floor)
	}
}

// A store that does not answer is asked once in a heartbeat, not once for every hundred lanes: each may cost a
// time-out.
func TestASilentStoreIsAskedOnceForAllLanes(t *testing.T) {
	const n = 250
	w := newWorld(t)
	w.init(0, n-1)
	d := w.daemon("a", 0, n-1)
	driver := &failing{Driver: memcas.Driver{Server: w.server}, left: 1 << 30}
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
	w.boot += 1000
	driver.left = 0
	results, err := d.Extend(ctx, held)
	if err != nil || driver.left != -1 {
		t.Errorf("%v; it was asked %d times", err, -driver.left)
	}
	for i, r := range results {
		if !errors.Is(r.Err, errLost) {
			t.Errorf("lane %d: %v", i, r.Err)
		}
	}
}

// A release without an answer is not sent again: nobody knows whether another daemon has the worker id by then.
func TestAReleaseIsSentOnce(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	d := w.daemon("a", 0, 0)
	driver := &failing{Driver: memcas.Driver{Server: w.server}, left: 1 << 30}
	d.Driver = driver
	g := d.mustAcquire()
	driver.left = 0
	if err := d.Release(ctx, g, g.Lo); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	driver.left = 1 << 30
	if err := d.Release(ctx, g, g.Lo); !errors.Is(err, workerid.ErrLost) || w.record(0).Owner != "a" {
		t.Errorf("the second time: %v, %+v", err, w.record(0))
	}
}

// Within W of a restore the floor must be raised, and each call may take its time-out: presences wait for that,
// those of leases that the store has forgotten as well as those of others.
func TestARaiseGoesFirst(t *testing.T) {
	for away, want := range map[int64]string{
		0:         "[raise raise raise raise delete announce]",
		watch + 1: "[raise raise raise raise delete]",
	} {
		w := newWorld(t)
		w.init(0, 1)
		d := w.daemon("a", 0, 1)
		driver := &noting{Driver: memcas.Driver{Server: w.server}}
		d.Driver = driver
		first := d.mustAcquire()
		state := w.server.Save()
		d.owner = "b"
		g := d.mustAcquire()
		first = d.mustExtend(first)
		kept := w.server.Record(first.Worker)
		w.boot += away
		w.server.Restore(state)
		w.server.SetRecord(first.Worker, kept)
		w.server.Expire()
		driver.notes, driver.fails = nil, 3
		held := []workerid.Grant{first, g}
		results, err := d.Extend(ctx, held)
		if err != nil || away == 0 && !errors.Is(results[1].Err, workerid.ErrLost) {
			t.Fatalf("%+v, %v", results, err)
		}
		d.Upkeep(ctx)
		d.Upkeep(ctx)
		w.boot += 1000
		d.Extend(ctx, held[:1])
		if got := fmt.Sprint(driver.notes); got != want {
			t.Errorf("%d ms after the last answer: %s, want %s", away, got, want)
		}
	}
}

// An extension that waited for its turn while its lease was given back, and the worker id leased anew, does not
// reach back to the first lease: between the two another daemon might have had it.
func TestAnExtensionOfAnEarlierLease(t *testing.T) {
	w := newWorld(t)
	w.init(0, 0)
	d := w.daemon("a", 0, 0)
	first := d.mustAcquire()
	if err := d.Release(ctx, first, first.Hi); err != nil {
		t.Fatal(err)
	}
	second := d.mustAcquire()
	results, err := d.Extend(ctx, []workerid.Grant{first})
	if err != nil || results[0].Err != nil || results[0].Grant.Lo != second.Lo {
		t.Errorf("%+v, %v; the second lease begins at %d", results, err, second.Lo)
	}
}

// closing counts how often it is closed.
type closing struct {
	memcas.Driver
	closed int
}

func (d *closing) Close() error {
	d.closed++
	return nil
}

func TestAStoreClosesItsDriverOnce(t *testing.T) {
	w := newWorld(t)
	driver := &closing{Driver: memcas.Driver{Server: w.server}}
	c := w.config(w.terms(0, 3))
	c.Driver = driver
	s, err := cas.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil || driver.closed != 1 {
			t.Errorf("%v, closed %d times", err, driver.closed)
		}
	}
	if _, err := s.Peers(context.Background()); err == nil {
		t.Error("a closed store answers")
	}
}
