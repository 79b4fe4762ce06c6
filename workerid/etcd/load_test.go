package etcd

import (
	"errors"
	"maps"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// makePool writes what `lease init -how new` does.
func makePool(t testing.TB, c Config) {
	t.Helper()
	d := driverOf(t, c, passing)
	conn := connected(t, d)
	m := pool.Meta{Epoch: "0", Floor: time.Now().UnixMilli(), Fingerprint: c.Layout, Lease: c.Lease.Milliseconds(),
		Epsilon: 5000, Min: c.Min, Max: c.Max}
	change := func(from, to uint64) pool.Change {
		ch := pool.Change{If: map[uint64]string{}, Set: map[uint64]string{}}
		for w := from; w <= min(to, c.Max); w++ {
			ch.If[w], ch.Set[w] = "", pool.Record{}.String()
		}
		return ch
	}
	for w := c.Min; w <= c.Max; w += cas.MaxRecords {
		if a, err := d.Commit(within(t, patience), conn, change(w, w+cas.MaxRecords-1)); err != nil || !a.Done {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if a, err := d.Commit(within(t, patience), conn, pool.Change{Fresh: true, SetMeta: m.String()}); err != nil ||
		!a.Done {
		t.Fatalf("%+v, %v", a, err)
	}
}

// A holder costs etcd one transaction per heartbeat and lane store, no reads, and now and then a
// message that keeps its lease. KATSUBUSHI_SOAK=1 asks for 1,000 holders at a real heartbeat.
func TestLoadOfHolders(t *testing.T) {
	t.Parallel()
	holders, rounds, heartbeat := 20, 5, time.Duration(0)
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		holders, rounds, heartbeat = 1000, 10, 2*time.Second
	}
	m := etcdtest.Start(t)
	c := settings(t, m)
	c.Min, c.Max, c.Heartbeat = 0, uint64(holders-1), 2*time.Second
	var skipped atomic.Int64 // of the watch
	began := time.Now()
	c.Boot = func() int64 { return int64(time.Since(began)) + skipped.Load() }
	makePool(t, c)
	held, grants := make([]*cas.Store, holders), make([]workerid.Grant, holders)
	each := func(f func(i int) error) {
		t.Helper()
		var all sync.WaitGroup
		errs := make([]error, holders)
		for i := range holders {
			all.Go(func() { errs[i] = f(i) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	each(func(i int) (err error) {
		if held[i], err = stores.Open(c.Settings, c.Timeout); err != nil {
			return err
		}
		t.Cleanup(func() { held[i].Close() })
		held[i].Acquire(bg, workerid.Request{Owner: "o" + strconv.Itoa(i), Max: c.Max}) // begins to watch
		return nil
	})
	skipped.Add(int64(pool.WatchOf(c.Heartbeat, c.Timeout)))
	each(func(i int) (err error) {
		grants[i], err = held[i].Acquire(bg, workerid.Request{Owner: "o" + strconv.Itoa(i), Max: c.Max})
		return err
	})
	beat := func() {
		each(func(i int) error {
			r, err := held[i].Extend(bg, []workerid.Grant{grants[i]})
			if err == nil && r[0].Err == nil {
				grants[i].Hi = max(grants[i].Hi, r[0].Grant.Hi)
			} else if err == nil {
				err = r[0].Err
			}
			return err
		})
	}
	beat()
	var after map[string]int
	var took time.Duration
	for tries := range 10 {
		before, start := m.Calls(), time.Now()
		for range rounds {
			next := time.Now().Add(heartbeat)
			beat()
			time.Sleep(time.Until(next))
		}
		took, after = time.Since(start), m.Calls()
		for method := range after {
			after[method] -= before[method]
		}
		if after["LeaseGrant"] == 0 {
			break
		}
		t.Logf("try %d: an etcd that was starved gave an answer too late, and a connection was made anew", tries)
	}
	maps.DeleteFunc(after, func(_ string, n int) bool { return n == 0 })
	t.Logf("%d holders, %d heartbeats in %v: %v", holders, rounds, took.Round(time.Millisecond), after)
	if after["Txn"] != holders*rounds || after["Range"] > 0 || after["Put"] > 0 || after["LeaseGrant"] > 0 {
		t.Errorf("%v", after)
	}
	if most := holders * (1 + int(took/(c.Lease/2/2))); after["LeaseKeepAlive"] > most {
		t.Errorf("%d times a lease was kept; %d were enough", after["LeaseKeepAlive"], most)
	}
}

// A window that adapts itself would cost an idle daemon a ping with every answer, and the wake-ups for it.
func TestAnswersCauseNoPings(t *testing.T) {
	t.Parallel()
	d, proxy := throughProxy(t, etcdtest.Start(t))
	var frames etcdtest.Frames
	proxy.Rewrite(frames.Pass)
	conn := connected(t, d)
	for i := range 20 {
		change := pool.Change{IfMeta: strconv.Itoa(i), SetMeta: strconv.Itoa(i + 1), Fresh: i == 0}
		if a, err := d.Commit(within(t, patience), conn, change); err != nil || !a.Done {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if frames.Pongs() > 0 || frames.Headers() < 20 {
		t.Errorf("%d pings of ours, and %d headers of answers", frames.Pongs(), frames.Headers())
	}
}
