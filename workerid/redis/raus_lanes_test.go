package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// What is wrong with one lane, or with the pool, keeps no other lane from hearing that its lock is
// lost.
func TestRausLanesHearTheirOwn(t *testing.T) {
	w := besideRaus(t)
	d := w.daemon()
	var held []workerid.Grant
	for range 3 {
		held = append(held, d.acquire())
		d.owner = workerid.NewOwner()
	}
	extend := func() []workerid.Result {
		t.Helper()
		ctx, cancel := within(redislink.Patience)
		defer cancel()
		results, err := d.Extend(ctx, held)
		if err != nil {
			t.Fatal(err)
		}
		w.want(results[0].Err, workerid.ErrShared)
		return results
	}
	late := &rausClient{w, "late", 1}
	late.hold()
	w.ahead.Store(3000)
	w.want(extend()[1].Err, workerid.ErrSkew)
	w.ahead.Store(0)
	w.server.Do("DEL", w.rausKey(2))
	w.server.Do("RPUSH", w.rausKey(2), "not a lock")
	if r := extend(); r[1].Err == nil || errors.Is(r[1].Err, workerid.ErrLost) || r[2].Err != nil {
		t.Errorf("%+v", r)
	}
}

// The locks of many lanes do not take a round trip each: where Redis is far away, none would be
// kept in time.
func TestRausLanesAreKeptTogether(t *testing.T) {
	w := newWorld(t)
	w.config.HoldRaus, w.config.Max = "raus", 64
	w.init(New)
	w.advance(1)
	p := redistest.NewProxy(t, w.server.Addr())
	d := w.daemon(w.through(p))
	var held []workerid.Grant
	for range w.config.Max {
		held = append(held, d.acquire())
		d.owner = workerid.NewOwner()
	}
	p.Delay(redislink.Patience / 64) // either way
	ctx, cancel := within(redislink.Patience)
	defer cancel()
	results, err := d.Extend(ctx, held)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("lane %d: %v", i, r.Err)
		}
	}
}

// A client of raus may go on until the lock is had, and not only until it is asked for.
func TestRausLockTakesItsTime(t *testing.T) {
	w := besideRaus(t)
	d := w.daemon(func(c *Config) {
		c.Now = func() int64 {
			if _, left := w.lock(1); left > 0 {
				return w.now() + 900
			}
			return w.now()
		}
	})
	if g := d.acquire(); g.Worker != 1 || g.Lo != w.now()+900+eps+1 {
		t.Errorf("%+v, had at %d", g, w.now()+900)
	}
}

func TestRausHeartbeat(t *testing.T) {
	if alone, beside := (Config{}).BestHeartbeat(),
		(Config{Options: Options{HoldRaus: "raus"}}).BestHeartbeat(); alone != 5*time.Second || beside != time.Second {
		t.Errorf("%v alone, %v beside clients of raus", alone, beside)
	}
}
