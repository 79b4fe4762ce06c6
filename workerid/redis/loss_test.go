package redis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
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

// keepTheirIDs checks that no daemon loses its worker id or must stop issuing.
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
	w.want(newcomer.tryAcquire(redislink.Patience), ErrNotInitialised)
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
	if err := holders[0].tryExtend(redislink.Patience); err == nil {
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

// A snapshot of the keys is put back into the running server. That is outside the guarantee, but
// holders notice it all the same, even one that is not in the snapshot.
func TestDUMPAndRESTOREOfOldKeys(t *testing.T) {
	start := func(t *testing.T) *world {
		w := newWorld(t)
		w.config.Max = 1
		w.init(New)
		w.advance(1)
		return w
	}
	t.Run("older than its last extension", func(t *testing.T) {
		w := start(t)
		d := w.daemon()
		d.acquire()
		putBack := w.snapshot()
		w.advance(lease / 2)
		d.extend()
		putBack()
		loss := w.now() + 5000
		w.keepTheirIDs([]*daemon{d})
		if err := d.release(w.now()); err != nil {
			t.Fatal(err)
		}
		w.waits(w.daemon(), loss)
	})
	t.Run("older than its lease", func(t *testing.T) {
		w := start(t)
		before := w.daemon()
		before.acquire()
		// it ran ahead of the clock, and the next window starts right above
		if err := before.release(w.now() + 500); err != nil {
			t.Fatal(err)
		}
		w.advance(1)
		putBack := w.snapshot()
		d := w.daemon()
		d.acquire()
		w.advance(lease / 2)
		d.extend()
		putBack()
		loss := w.now() + 5000
		w.keepTheirIDs([]*daemon{d})
		if err := d.release(w.now()); err != nil {
			t.Fatal(err)
		}
		w.waits(w.daemon(), loss)
	})
	t.Run("older than its lease, and it stops", func(t *testing.T) {
		w := start(t)
		putBack := w.snapshot()
		d := w.daemon()
		d.acquire()
		w.advance(5000)
		putBack()
		w.want(d.release(w.now()), workerid.ErrLost)
		w.waits(w.daemon(), w.now())
	})
}

// snapshot returns what puts the keys back as they are now.
func (w *world) snapshot() (putBack func()) {
	old := map[string]any{}
	for _, k := range []string{"ids", "clients", "stats", "hw", "meta"} {
		if old[k] = w.server.Do("DUMP", w.key(k)); old[k] == nil {
			delete(old, k)
		}
	}
	return func() {
		w.server.Do("DEL", w.key("clients"), w.key("hw"))
		for k, v := range old {
			w.server.Do("RESTORE", w.key(k), 0, v, "REPLACE")
		}
	}
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
	w.want(newcomer.tryAcquire(redislink.Patience), workerid.ErrNoID)
	w.keepTheirIDs(holders)
	w.advance(lease)
	w.keepTheirIDs(holders)
	newcomer.acquire()
}

// An unreadable record counts as lost, once.
func TestUnreadableRecord(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	if err := d.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.server.Do("HSET", w.key("hw"), "A1", "not a record")
	w.advance(1)
	w.config.Max = 3
	newcomers := []*daemon{w.daemon(), w.daemon(), w.daemon()}
	newcomers[0].acquire() // others come first
	newcomers[1].acquire()
	w.waits(newcomers[2], w.now())
}

// A field of meta that somebody else overwrote counts as lost if it is not a number, or not a
// possible time.
func TestStrangeMeta(t *testing.T) {
	for _, field := range []string{"seen", "floor", "lmax", "eps", "replicas"} {
		values := []string{"inf", "1e300"}
		if field == "seen" {
			values = append(values, "-nan", "-1", "", "12345678901234567890")
		}
		for _, value := range values {
			t.Run(field+" "+value, func(t *testing.T) {
				w := newWorld(t)
				holders := w.holders(2)
				w.server.Do("HSET", w.key("meta"), field, value)
				loss := w.now() + 5000 // noticed then
				w.keepTheirIDs(holders)
				newcomer := w.daemon()
				if field == "replicas" { // then it is the daemons' setting that counts
					newcomer.acquire()
				} else {
					w.waits(newcomer, loss)
				}
			})
		}
	}
}

// A broken counter must not keep a daemon from getting a worker id.
func TestStrangeCounters(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.advance(1)
	for _, name := range []string{
		"client_id_count", "get_id_count", "get_id_success", "get_id_no_available_id", "extend_ttl_count",
		"extend_ttl_success", "extend_ttl_ownership_error",
		"extend_ttl_expire_warning",
	} {
		w.server.Do("HSET", w.key("stats"), name, "many")
	}
	d := w.daemon()
	d.acquire()
	w.advance(lease + 1)
	d.extend()
	w.server.Do("HSET", w.key("clients"), "A1", "somebody else")
	w.want(d.tryExtend(redislink.Patience), workerid.ErrLost)
	for range 2 {
		w.daemon().acquire()
	}
	w.want(w.daemon().tryAcquire(redislink.Patience), workerid.ErrNoID)
	if s, err := w.pool().Stats(t.Context()); err != nil || s.GetIDCount != 0 || s.UsingIDs != 3 {
		t.Errorf("%+v, %v", s, err)
	}
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
		// given up rather than doubted: it issues to the end of its window
		w.want(holders[0].tryExtend(redislink.Patience), workerid.ErrLost)
		holders[0].acquire()
	})
}

func TestEvictionIsRefused(t *testing.T) {
	w := newWorld(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	w.init(New)
	w.advance(1)
	d := w.daemon()
	w.want(d.tryAcquire(redislink.Patience), ErrEvicts)
	w.daemon(func(c *Config) { c.AllowEviction = true }).acquire()
	w.server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	d.acquire()
}

// A daemon with AllowEviction: Redis is short of memory all the time and evicts arbitrary keys of
// the pool. That loses worker ids, and newcomers wait. But as long as Redis evicts whole keys,
// windows do not overlap. (Which keys it evicts does not depend on the seed.)
func TestKeysReallyEvicted(t *testing.T) {
	w := newWorld(t, "--maxmemory-policy", "allkeys-random")
	w.config.Max, w.config.AllowEviction, w.config.AutoInit = 4, true, true
	w.init(New)
	w.advance(1)
	used, err := strconv.ParseInt(w.server.Info("used_memory"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w.server.Do("CONFIG", "SET", "maxmemory", used+1<<20)
	all := make([]*daemon, 5)
	for i := range all {
		all[i] = w.daemon()
	}
	junk, evicted := w.server.Client(), map[string]bool{}
	there := func() (n int) {
		for _, key := range []string{"ids", "clients", "stats", "hw", "meta"} {
			if junk.Exists(t.Context(), w.key(key)).Val() == 1 {
				n++
			} else {
				evicted[key] = true
			}
		}
		return n
	}
	press := func() { // until one of them is gone
		before := there()
		for i := 0; there() == before; i++ {
			if err := junk.Set(t.Context(), fmt.Sprint("junk", i%40), strings.Repeat("x", 50_000), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			junk.Del(t.Context(), fmt.Sprint("junk", i))
		}
	}
	holds, granted, lost := map[*daemon]bool{}, 0, 0
	for round, next, pause := 0, 0, 0; len(evicted) < 5 || granted < 20 || lost < 3; round++ {
		if round == 50_000 {
			t.Fatalf("in %d rounds %v were evicted, %d leases granted and %d lost", round, evicted, granted, lost)
		}
		w.advance(1000)
		if round == next {
			if there() > 0 {
				press()
			}
			pause = (pause + 37) % 120 // sometimes a newcomer's wait ends, sometimes the next key goes before
			next += 1 + pause
		}
		for i, d := range all {
			switch {
			case (round+i)%5 != 0:
			case holds[d]:
				if err := d.settle(); err != nil {
					holds[d] = false
					lost++
				}
			default:
				d.owner = workerid.NewOwner()
				if holds[d] = d.settleAcquire() == nil; holds[d] {
					granted++
				}
			}
		}
	}
	t.Logf("%d of the pool's 5 keys were evicted; %d leases granted, %d lost; %s evictions in all", len(evicted), granted,
		lost, w.server.Info("evicted_keys"))
}

// mixed starts a daemon with different settings in a pool that has a holder. The error must name both
// settings, and nothing must be granted.
func mixed(t *testing.T, changes ...func(*Config)) {
	w := newWorld(t)
	d := w.holders(1)[0]
	for _, change := range changes {
		foreign := w.daemon(change)
		err := foreign.tryAcquire(redislink.Patience)
		w.want(err, workerid.ErrForeignPool)
		if !strings.Contains(err.Error(), d.terms.Fingerprint) || !strings.Contains(err.Error(), foreign.terms.Fingerprint) {
			t.Errorf("%v does not say both settings", err)
		}
		foreign.memory, foreign.owner, foreign.grant = *d.remembered(), d.owner, d.grant
		w.want(foreign.tryExtend(redislink.Patience), workerid.ErrForeignPool) // nor is a lease kept with it
	}
	d.extend()
}

func TestMixedLeases(t *testing.T) {
	mixed(t, func(c *Config) {
		c.Lease = 2 * workerid.DefaultLease
	}, func(c *Config) { c.Lease = workerid.DefaultLease / 2 })
}

func TestMixedRanges(t *testing.T) {
	mixed(t, func(c *Config) { c.Max = 4 }, func(c *Config) { c.Min = 0 })
}

func TestOtherLayout(t *testing.T) { mixed(t, func(c *Config) { c.Layout = "other" }) }

func TestNotInitialised(t *testing.T) {
	w := newWorld(t)
	d := w.daemon()
	w.want(d.tryAcquire(redislink.Patience), ErrNotInitialised)
	_, list := w.pool().List(t.Context())
	_, stats := w.pool().Stats(t.Context())
	_, free := w.pool().Release(t.Context(), 1)
	_, migrated := w.pool().initialise(t.Context(), Migrated)
	_, reset := w.pool().ResetClock(t.Context())
	_, replicas := w.pool().Replicas(t.Context())
	for _, err := range []error{list, stats, free, migrated, reset, replicas, w.pool().SetReplicas(t.Context(), 1)} {
		w.want(err, ErrNotInitialised)
		if where := "; it was looked for at " + w.server.Addr() + " as ns=" +
			w.namespace; !strings.HasSuffix(err.Error(), where) {
			t.Errorf("%v: without %s", err, where)
		}
	}
	if left := fmt.Sprint(w.server.Do("EXISTS", w.key("meta"))); left != "0" {
		t.Error("an operator's command left something where there is no pool")
	}
	w.waits(w.daemon(func(c *Config) { c.AutoInit = true }), w.now())
	d.acquire()
}

func TestYarausPool(t *testing.T) {
	w := newWorld(t)
	now := float64(w.now()) / 1000
	w.server.Do("ZADD", w.key("ids"), 0, "A1", now+1000.000123, "A2", now-10, "A3")
	w.server.Do("HSET", w.key("clients"), "A2", "host-1.000-1", "A3", "host-1.000-2")
	w.server.Do("HSET", w.key("stats"), "min", 1, "max", 3)
	w.want(w.daemon().tryAcquire(redislink.Patience), ErrNotInitialised)
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
	w.want(w.daemon().tryAcquire(redislink.Patience), workerid.ErrNoID)
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
	before := d.Status().Incarnation
	w.server.Do("FLUSHALL")
	d.extend()
	if after := d.Status(); after.Incarnation == before || after.Addr != p.Addr() {
		t.Errorf("%+v", after)
	}
}
