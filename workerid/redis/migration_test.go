package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A guest is somebody else's program that shares worker ids with a pool while a fleet is migrated.
// It issues ids by a clock of its own that is up to MaxSkew wrong, without a break from when it has
// the worker id until it goes.
type guest interface {
	keep() (lost bool) // the worker id; as often as it must
	leave()            // in order
	id() uint64
	issuesFrom(now int64) int64 // when it begins, Redis's clock
}

// A migration is a random history of a fleet in which guests leave, come, crash and are rolled back
// while our daemons do the same.
type migration struct {
	*world
	rand   *rand.Rand
	arrive func(*rand.Rand) guest // nil if there is no worker id
	guests []*usage
	used   map[uint64][]window // what guests have issued
	ours   []*issuing
}

// usage is a guest and what it has issued.
type usage struct {
	guest
	name   string
	offset int64 // of its clock
	next   int64
}

// issuing is a daemon of ours and what it last issued.
type issuing struct {
	*daemon
	last int64
}

// migrations runs random histories, or that of KATSUBUSHI_SEED alone.
func migrations(t *testing.T, besides func(*Config), guests func(*world) func(*rand.Rand) guest) {
	t.Parallel()
	first, last := uint64(1), uint64(3)
	if s := os.Getenv("KATSUBUSHI_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, last = n, n
	}
	server := redistest.Start(t)
	shared := 0
	for seed := first; seed <= last; seed++ {
		w := worldOf(t, server)
		w.server.Do("FLUSHALL")
		w.config.Max = 6
		besides(&w.config)
		m := &migration{world: w, rand: rand.New(rand.NewPCG(seed, 0)), arrive: guests(w), used: map[uint64][]window{}}
		for range 250 {
			m.step()
		}
		for worker, spans := range m.used { // guests may meet guests: that is theirs to answer for
			if len(m.windows[worker]) > 0 {
				shared++
			}
			for _, g := range spans {
				for _, d := range m.windows[worker] {
					if d.lo <= d.hi && d.lo <= g.hi && g.lo <= d.hi {
						t.Errorf("worker id %d: %+v meets %+v", worker, g, d)
					}
				}
			}
		}
		if t.Failed() {
			t.Fatalf("run it alone with KATSUBUSHI_SEED=%d", seed)
		}
	}
	if shared < int(last-first+1) {
		t.Errorf("only %d times was a worker id used by both", shared)
	}
}

func (m *migration) step() {
	switch n := m.rand.IntN(12); {
	case n == 0:
		if g := m.arrive(m.rand); g != nil {
			u := &usage{g, fmt.Sprintf("guest of step %d", m.now()), m.rand.Int64N(4001) - 2000, 0}
			u.next = g.issuesFrom(m.now()) + u.offset
			m.guests = append(m.guests, u)
		}
	case n <= 2:
		offset := m.rand.Int64N(4001) - 2000
		d := m.daemon(func(c *Config) { c.Now = func() int64 { return m.now() + offset } })
		if err := d.tryAcquire(redislink.Patience); err == nil {
			m.ours = append(m.ours, &issuing{d, d.grant.Lo - 1})
		} else if d.Close(); !errors.Is(err, workerid.ErrNoID) && !late(err) {
			m.Errorf("acquire: %v", err)
		}
	case n == 3 && len(m.guests) > 0: // one stops, or crashes
		i := m.rand.IntN(len(m.guests))
		u := m.guests[i]
		m.guests = slices.Delete(m.guests, i, i+1)
		m.issue(u)
		if m.rand.IntN(3) > 0 {
			u.leave()
		}
	case n == 4 && len(m.ours) > 0:
		i := m.rand.IntN(len(m.ours))
		d := m.ours[i]
		m.ours = slices.Delete(m.ours, i, i+1)
		if m.rand.IntN(3) > 0 {
			if err := d.release(d.last); err != nil && !late(err) {
				m.Errorf("release: %v", err)
			}
		}
		d.Close()
	case n == 5:
		m.advance(1 + m.rand.Int64N(70_000))
	default:
		m.advance(1 + m.rand.Int64N(3000))
	}
	for _, u := range m.guests {
		if u.keep() {
			m.Errorf("%s lost worker id %d", u.name, u.id())
		}
		m.issue(u)
	}
	for _, d := range m.ours {
		if err := d.tryExtend(redislink.Patience); err != nil && !late(err) {
			m.Errorf("extend: %v", err)
		}
		d.last = max(d.last, min(d.grant.Hi, d.c.Now()+1000)) // it issues up to a second ahead of its clock
	}
}

// issue notes what a guest has issued meanwhile.
func (m *migration) issue(u *usage) {
	if now := m.now() + u.offset; u.next <= now {
		m.used[u.id()] = append(m.used[u.id()], window{u.name, u.next, now})
		u.next = now + 1
	}
}

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

// A rausGuest is a daemon of kayac's.
type rausGuest struct{ *rausClient }

func (g rausGuest) id() uint64                 { return uint64(g.worker) }
func (g rausGuest) leave()                     { g.stop() }
func (g rausGuest) issuesFrom(now int64) int64 { return now }

func (g rausGuest) keep() bool {
	g.expire()
	return g.hold() != g.uuid
}

// expire lets the locks' time-outs, which go by Redis's clock, go by the world's.
func (w *world) expire() {
	w.server.Do("EVAL", `
for worker = 1, 6 do
  local key = ARGV[1] .. ':id:' .. worker
  local left = redis.call('PTTL', key)
  if left >= 0 then
    redis.call('HSET', 'ends', key, ARGV[2] + left)
    redis.call('PERSIST', key)
  end
  if ARGV[2] > (redis.call('HGET', 'ends', key) or '0') then redis.call('DEL', key) end
end`, 0, w.config.HoldRaus, w.now())
}

func TestMigrationFromRaus(t *testing.T) {
	migrations(t, func(c *Config) { c.HoldRaus = "raus" }, func(w *world) func(*rand.Rand) guest {
		w.init(New)
		return func(r *rand.Rand) guest {
			w.expire()
			for _, worker := range r.Perm(6) {
				if c := w.rausClient(worker+1, fmt.Sprint("host-", r.Uint64())); c != nil {
					return rausGuest{c}
				}
			}
			return nil
		}
	})
}

// A yarausGuest does what shogo82148/yaraus's scripts do, by the world's clock.
type yarausGuest struct {
	*world
	member, owner string
}

const (
	yarausExpire = 1800_000 // ms
	yarausDelay  = 2000
)

func (w *world) yaraus(owner string) *yarausGuest {
	now := float64(w.now()) / 1000
	first := w.server.Do("ZRANGE", w.key("ids"), 0, 0, "WITHSCORES").([]any)
	score, _ := strconv.ParseFloat(first[1].(string), 64)
	if score >= now {
		return nil
	}
	g := &yarausGuest{w, first[0].(string), owner}
	w.server.Do("ZADD", w.key("ids"), now+yarausExpire/1000, g.member)
	w.server.Do("HSET", w.key("clients"), g.member, owner)
	return g
}

func (g *yarausGuest) id() uint64 {
	n, err := script.ParseMember(g.member)
	if err != nil {
		g.Error(err)
	}
	return n
}

func (g *yarausGuest) issuesFrom(now int64) int64 { return now + yarausDelay }

func (g *yarausGuest) keep() bool {
	if g.server.Do("HGET", g.key("clients"), g.member) != g.owner {
		return true
	}
	g.server.Do("ZADD", g.key("ids"), float64(g.now()+yarausExpire)/1000, g.member)
	return false
}

func (g *yarausGuest) leave() {
	g.server.Do("HDEL", g.key("clients"), g.member)
	g.server.Do("ZADD", g.key("ids"), float64(g.now())/1000, g.member)
}

func TestMigrationFromYaraus(t *testing.T) {
	migrations(t, func(*Config) {}, func(w *world) func(*rand.Rand) guest {
		for n := range 6 {
			w.server.Do("ZADD", w.key("ids"), 0, script.Member(uint64(n+1)))
		}
		w.server.Do("HSET", w.key("stats"), "min", 1, "max", 6)
		w.yaraus("host-1.000-0") // that one was killed
		if got := w.init(New); got != Adopted {
			w.Errorf("init: %s", got)
		}
		return func(r *rand.Rand) guest {
			if g := w.yaraus(fmt.Sprint("host-1.000-", r.Uint64())); g != nil {
				return g
			}
			return nil
		}
	})
}
