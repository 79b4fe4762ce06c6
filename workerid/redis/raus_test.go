package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A rausClient keeps a worker id as fujiwara/raus does: SET NX, then every second GETSET and
// EXPIRE, at last DEL.
type rausClient struct {
	*world
	uuid   string
	worker int
}

func (w *world) rausKey(worker int) string { return fmt.Sprintf("%s:id:%d", w.config.HoldRaus, worker) }

// rausClient takes a worker id, or is nil if it is taken.
func (w *world) rausClient(worker int, uuid string) *rausClient {
	c := &rausClient{w, uuid, worker}
	if w.server.Do("SET", w.rausKey(worker), c.uuid, "EX", 600, "NX") == nil {
		return nil
	}
	return c
}

// hold reports who had the lock. A raus client ends when it was not itself, but the lock is its own.
func (c *rausClient) hold() string {
	holder, _ := c.server.Do("GETSET", c.rausKey(c.worker), c.uuid).(string)
	c.server.Do("EXPIRE", c.rausKey(c.worker), 600)
	return holder
}

func (c *rausClient) stop() { c.server.Do("DEL", c.rausKey(c.worker)) }

// lock is who holds a worker id's lock, and for how many ms.
func (w *world) lock(worker int) (holder string, left int64) {
	holder, _ = w.server.Do("GET", w.rausKey(worker)).(string)
	return holder, w.server.Do("PTTL", w.rausKey(worker)).(int64)
}

// besideRaus is a world with a pool of worker ids 1 to 3 that clients of raus use too.
func besideRaus(t *testing.T) *world {
	w := newWorld(t)
	w.config.HoldRaus = "raus"
	w.init(New)
	w.advance(1)
	return w
}

const almost = 600_000 - 60_000 // ms: what is left of a lock that was just renewed, even on a slow machine

func TestRausLockIsHeld(t *testing.T) {
	w := besideRaus(t)
	d := w.daemon()
	g := d.acquire()
	holder, left := w.lock(1)
	if g.Worker != 1 || left < almost || left > 600_000 || strings.Contains(holder, ":") {
		t.Errorf("%+v; the lock is %q's for %d ms", g, holder, left)
	}
	if w.rausClient(1, "late") != nil {
		t.Error("a client of raus took it too")
	}
	w.server.Do("PEXPIRE", w.rausKey(1), 60_000)
	d.extend()
	holder = strings.TrimSuffix(holder, "?")
	if again, left := w.lock(1); again != holder || left < almost {
		t.Errorf("extended; the lock is %q's for %d ms", again, left)
	}
	// It ends when the last id, issued ahead of the clock, lies eps behind.
	if err := d.release(w.now() + 800); err != nil {
		t.Error(err)
	}
	if again, left := w.lock(1); again != holder || left > 800+eps || left < 800 {
		t.Errorf("released; the lock is %q's for %d ms", again, left)
	}
}

// Newcomers of raus listen for three seconds, and take what they have not heard of.
func TestRausHearsOfUs(t *testing.T) {
	w := besideRaus(t)
	heard := w.server.Client().Subscribe(t.Context(), w.config.HoldRaus+":broadcast")
	defer heard.Close()
	if _, err := heard.Receive(t.Context()); err != nil { // it listens
		t.Fatal(err)
	}
	d := w.daemon()
	d.acquire()
	for _, then := range []func(){d.extend, func() {
		w.advance(lease + 1)
		d.extend()
	}, func() {}} {
		select {
		case m := <-heard.Channel():
			if parts := strings.Split(m.Payload, ":"); len(parts) != 2 || parts[1] != "1" {
				t.Errorf("%q", m.Payload)
			}
		case <-time.After(redislink.Patience):
			t.Fatal("nothing was heard")
		}
		then()
	}
}

func TestRausClientsKeepTheirs(t *testing.T) {
	w := besideRaus(t)
	one, two := w.rausClient(1, "one"), w.rausClient(2, "two")
	d, e := w.daemon(), w.daemon()
	if d.acquire(); d.grant.Worker != 3 {
		t.Errorf("%+v", d.grant)
	}
	w.advance(1) // what was given back is free
	err := e.tryAcquire(redislink.Patience)
	if w.want(err, workerid.ErrNoID); !strings.Contains(err.Error(), "raus") {
		t.Errorf("%v does not say who has them", err)
	}
	if one.hold() != one.uuid || two.hold() != two.uuid {
		t.Error("a lock was touched")
	}
	one.stop()
	w.advance(1)
	if e.acquire(); e.grant.Worker != 1 || e.grant.Lo != w.now()+eps+1 || e.grant.Hi != w.now()+lease {
		t.Errorf("%+v at %d, just after a client of raus", e.grant, w.now())
	}
	w.advance(eps)
	e.extend()
}

func TestRausLockPassesOnWithinThePool(t *testing.T) {
	w := besideRaus(t)
	w.config.Max = 1
	w.server.Do("DEL", w.key("ids"), w.key("meta"), w.key("stats"))
	w.init(New)
	d, e := w.daemon(), w.daemon()
	d.acquire()
	w.advance(eps + 1)
	d.extend()
	last := w.now()
	if err := d.release(last); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	if e.acquire(); e.grant.Lo != last+1 {
		t.Errorf("after a holder of the same pool %+v, not from %d", e.grant, last+1)
	}
	e.extend()
	holder, _ := w.lock(1)
	if err := d.release(last); !errors.Is(err, workerid.ErrLost) {
		t.Errorf("released again: %v", err)
	}
	if now, left := w.lock(1); now != holder || left < almost {
		t.Errorf("the former holder changed the lock: %q's for %d ms", now, left)
	}
	e.Close() // killed: the lock stays, and does not keep others of the pool out
	w.advance(lease + 1)
	f := w.daemon()
	if f.acquire(); f.grant.Lo != e.grant.Hi+1 {
		t.Errorf("after a killed holder with the window %+v: %+v", e.grant, f.grant)
	}
	// Another pool is as foreign as a client of raus.
	other := w.daemon(func(c *Config) {
		c.URL += "2"
		c.AutoInit = true
	})
	w.want(other.tryAcquire(redislink.Patience), workerid.ErrNoID)
	w.advance(600_000 + eps + 1)
	w.want(other.tryAcquire(redislink.Patience), workerid.ErrNoID)
}

func TestRausLockIsLost(t *testing.T) {
	w := besideRaus(t)
	d, e := w.daemon(), w.daemon()
	d.acquire()
	e.acquire()
	mark := func(worker int) string { return w.server.Do("HGET", w.key("hw"), fmt.Sprintf("A%d", worker)).(string) }
	before := mark(1)

	// A client of raus that had the worker id long ago wakes up and takes the lock, as raus does,
	// before it looks whose it was.
	late := &rausClient{w, "late", 1}
	if holder := late.hold(); holder == late.uuid || holder == "" {
		t.Errorf("the lock was %q's", holder)
	}
	err := d.tryExtend(redislink.Patience)
	w.want(err, workerid.ErrShared)
	if !strings.Contains(err.Error(), late.uuid) || errors.Is(err, workerid.ErrCloned) {
		t.Errorf("%v does not say whose it is", err)
	}
	if mark(1) != before {
		t.Error("the lease was extended all the same")
	}
	if holder, _ := w.lock(1); holder != late.uuid {
		t.Errorf("the lock is %q's", holder)
	}

	w.server.Do("DEL", w.rausKey(2)) // forgotten by Redis
	e.extend()
	if _, left := w.lock(2); left < almost {
		t.Errorf("the lock was not made again: %d", left)
	}
	w.server.Do("DEL", w.rausKey(2))
	w.advance(lease + 1) // the window is over: a client of raus may have come and gone
	w.want(e.tryExtend(redislink.Patience), workerid.ErrLost)
	if holder, _ := w.lock(2); holder != "" {
		t.Errorf("the lock is %q's", holder)
	}
}

// Whatever is wrong with a lock, nothing is issued on the strength of the lease alone.
func TestRausLockHasNoAnswer(t *testing.T) {
	w := besideRaus(t)
	w.server.Do("RPUSH", w.rausKey(1), "not a lock")
	d := w.daemon()
	if err := d.tryAcquire(redislink.Patience); err == nil || errors.Is(err, workerid.ErrNoID) ||
		!strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("error is %v", err)
	}
	w.server.Do("DEL", w.rausKey(1))
	// The lock may have been taken all the same, late, from under a client of raus who used it
	// until then: that it is ours proves nothing.
	for worker := range uint64(3) {
		if was, err := d.raus.do(t.Context(), rausTake, worker+1, rausExpiry); was || err != nil {
			t.Errorf("%t, %v", was, err)
		}
	}
	w.advance(100)
	if d.acquire(); d.grant.Lo != w.now()+eps+1 {
		t.Errorf("%+v at %d", d.grant, w.now())
	}
	w.server.Do("DEL", w.rausKey(int(d.grant.Worker)))
	w.server.Do("RPUSH", w.rausKey(int(d.grant.Worker)), "not a lock")
	hi := d.grant.Hi
	if err := d.tryExtend(redislink.Patience); err == nil || errors.Is(err, workerid.ErrLost) ||
		errors.Is(err, workerid.ErrShared) {
		t.Errorf("error is %v", err)
	}
	w.server.Do("DEL", w.rausKey(int(d.grant.Worker)))
	w.server.Kill()
	w.server.Launch() // and the old connection is gone
	w.advance(1000)
	if err := d.settle(); err != nil || d.grant.Hi <= hi {
		t.Errorf("%+v, error %v", d.grant, err)
	}
}

func TestRausSettings(t *testing.T) {
	c := Config{URL: "redis://h", Terms: workerid.Terms{Max: 3, Lease: 5*time.Minute + 1},
		Options: Options{HoldRaus: "raus"}}
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "raus") {
		t.Errorf("error is %v", err)
	}
	c.Lease--
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.terms.MaxLease != (10 * time.Minute).Milliseconds() {
		t.Errorf("after a loss only %d ms are waited for", s.terms.MaxLease)
	}
}

// The rules of the two documents together are enough; that of the first alone is not.
func TestRausPermissions(t *testing.T) {
	w := besideRaus(t)
	w.server.Do(documentedRule(t, "REDIS.md")...)
	w.config.URL = "redis://katsubushi:secret@" + w.server.Addr() + "/0?ns=" + redistest.Namespace(t)
	if err := w.daemon().tryAcquire(redislink.Patience); err == nil || !strings.Contains(err.Error(), "permissions") {
		t.Errorf("error is %v", err)
	}
	w.server.Do(documentedRule(t, "MIGRATING.md")...)
	d := w.daemon()
	d.acquire()
	d.extend()
	if err := d.release(d.grant.Lo); err != nil {
		t.Error(err)
	}
}
