package redis

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/internal/redistest"
	"github.com/katsubushi/katsubushi/workerid"
)

// holders is n daemons that hold worker ids, half a lease ago.
func (w *world) holders(n int, change ...func(*Config)) []*daemon {
	w.Helper()
	w.init(New)
	w.advance(1)
	var all []*daemon
	for range n {
		d := w.daemon(change...)
		d.acquire()
		all = append(all, d)
	}
	w.advance(lease / 2)
	for _, d := range all {
		d.extend()
	}
	return all
}

// keepTheirIDs checks that nobody loses his worker id or has to stop issuing.
func (w *world) keepTheirIDs(all []*daemon) {
	w.Helper()
	for range 3 {
		w.advance(5000)
		for _, d := range all {
			d.extend()
		}
	}
}

func TestFLUSHALL(t *testing.T) {
	w := newWorld(t)
	holders := w.holders(2)
	newcomer := w.daemon()
	w.server.Do("FLUSHALL")
	w.want(newcomer.tryAcquire(patience), ErrNotInitialised)
	w.keepTheirIDs(holders)
	w.server.Do("FLUSHALL") // and once more, on the same server
	loss := w.now() + 5000  // noticed then
	w.keepTheirIDs(holders)
	w.waits(newcomer, loss)
}

func TestRestartWithoutPersistence(t *testing.T) {
	w := newWorld(t)
	holders := w.holders(3)
	w.server.Kill()
	w.advance(30000)
	if err := holders[0].tryExtend(patience); err == nil {
		t.Error("extended without a server")
	}
	w.server.Launch()
	loss := w.now() + 5000
	w.keepTheirIDs(holders)
	if err := holders[2].release(w.now()); err != nil {
		t.Error(err)
	}
	w.waits(w.daemon(), loss)
}

func TestRestartAfterTheLeasesEnded(t *testing.T) {
	w := newWorld(t)
	holders := w.holders(2)
	w.server.Kill()
	w.advance(lease + 1)
	w.server.Launch()
	w.want(holders[0].settle(), workerid.ErrLost) // it may have been granted to somebody, who may have been forgotten
	w.want(holders[1].settle(), workerid.ErrLost)
	w.waits(holders[0], w.now())
}

func TestRestartWithPersistence(t *testing.T) {
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	holders := w.holders(3)
	w.server.Kill()
	w.server.Launch()
	w.keepTheirIDs(holders)
}

// A snapshot of the keys is put back into the running server: outside the promise, and noticed all the same by a holder.
func TestDUMPAndRESTOREOfOldKeys(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.advance(1)
	d, newcomer := w.daemon(), w.daemon()
	d.acquire()
	old := map[string]any{}
	for _, k := range []string{"ids", "clients", "stats", "hw", "meta"} {
		old[k] = w.server.Do("DUMP", w.key(k))
	}
	w.advance(lease / 2)
	d.extend()
	for k, v := range old {
		w.server.Do("RESTORE", w.key(k), 0, v, "REPLACE")
	}
	loss := w.now() + 5000
	w.keepTheirIDs([]*daemon{d})
	w.waits(newcomer, loss)
}

func TestDEBUGRELOAD(t *testing.T) {
	w := newWorld(t)
	holders := w.holders(2)
	w.server.Do("DEBUG", "RELOAD")
	w.keepTheirIDs(holders)
	w.daemon().acquire()
}

func TestHWHashAloneLost(t *testing.T) {
	w := newWorld(t)
	holders := w.holders(2)
	gone := w.daemon()
	gone.acquire()
	if err := gone.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.advance(10)
	w.server.Do("DEL", w.key("hw"))
	newcomer := w.daemon()
	w.want(newcomer.tryAcquire(patience), workerid.ErrNoID)
	w.keepTheirIDs(holders)
	w.advance(lease)
	w.keepTheirIDs(holders)
	newcomer.acquire()
}

func TestEachKeyAloneLost(t *testing.T) {
	for _, key := range []string{"ids", "stats", "meta"} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			holders := w.holders(2)
			w.server.Do("DEL", w.key(key))
			w.keepTheirIDs(holders)
			w.advance(lease)
			w.keepTheirIDs(holders)
			w.daemon().acquire()
		})
	}
	t.Run("clients", func(t *testing.T) {
		w := newWorld(t)
		holders := w.holders(2)
		w.server.Do("DEL", w.key("clients"))
		w.want(holders[0].tryExtend(patience), workerid.ErrLost) // given up rather than doubted: it issues to the end of its window
		holders[0].acquire()
	})
}

func TestEviction(t *testing.T) {
	w := newWorld(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	w.init(New)
	w.advance(1)
	d := w.daemon()
	w.want(d.tryAcquire(patience), ErrEvicts)
	w.daemon(func(c *Config) { c.AllowEviction = true }).acquire()
	w.server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	d.acquire()
}

func TestMixedSettings(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	for _, change := range []func(*Config){
		func(c *Config) { c.Lease = 2 * DefaultLease },
		func(c *Config) { c.Layout = "other" },
		func(c *Config) { c.Max = 4 },
		func(c *Config) { c.Min = 0 },
	} {
		foreign := w.daemon(change)
		err := foreign.tryAcquire(patience)
		w.want(err, workerid.ErrForeignPool)
		if !strings.Contains(err.Error(), d.terms.Fingerprint) || !strings.Contains(err.Error(), foreign.terms.Fingerprint) {
			t.Errorf("%v does not say both settings", err)
		}
	}
	d.extend()
}

func TestNotInitialised(t *testing.T) {
	w := newWorld(t)
	d := w.daemon()
	w.want(d.tryAcquire(patience), ErrNotInitialised)
	w.waits(w.daemon(func(c *Config) { c.AutoInit = true }), w.now())
	d.acquire()
}

func TestYarausPool(t *testing.T) {
	w := newWorld(t)
	now := float64(w.now()) / 1000
	w.server.Do("ZADD", w.key("ids"), 0, "A1", now+1000.000123, "A2", now-10, "A3")
	w.server.Do("HSET", w.key("clients"), "A2", "host-1.000-1", "A3", "host-1.000-2")
	w.server.Do("HSET", w.key("stats"), "min", 1, "max", 3)
	w.want(w.daemon().tryAcquire(patience), ErrNotInitialised)
	if got := w.init(New); got != Adopted {
		t.Errorf("init: %s", got)
	}
	w.advance(1)
	a, b := w.daemon(), w.daemon()
	if a.acquire(); a.grant.Worker != 1 {
		t.Errorf("%+v", a.grant)
	}
	if b.acquire(); b.grant.Worker != 3 || b.grant.Lo != startOfTime+1 {
		t.Errorf("%+v", b.grant)
	}
	w.want(w.daemon().tryAcquire(patience), workerid.ErrNoID)
	w.advance(1000 * 1000) // A2's client is gone; A1's and A3's extend late
	a.extend()
	b.extend()
	w.advance(1)
	c := w.daemon()
	if c.acquire(); c.grant.Worker != 2 || c.grant.Lo < startOfTime+1000*1000+5000 {
		t.Errorf("a yaraus client had it until %d; granted %+v", startOfTime+1000*1000, c.grant)
	}
	if got := w.init(Migrated); got != Finished {
		t.Errorf("init: %s", got)
	}
}

// Old servers are not reached, new ones are: what a state of the world says about it.
func TestStatusFollowsTheServer(t *testing.T) {
	w := newWorld(t)
	p := redistest.NewProxy(t, w.server.Addr())
	d := w.holders(1, w.through(p))[0]
	before := d.Status().History
	w.server.Do("FLUSHALL")
	d.extend()
	if after := d.Status(); after.History == before || after.Addr != p.Addr() {
		t.Errorf("%+v", after)
	}
}
