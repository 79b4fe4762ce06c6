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

// A migration is a random history of a fleet in which clients of yaraus leave, come and crash while our daemons do the
// same.
type migration struct {
	*world
	rand   *rand.Rand
	guests []*guest
	used   map[uint64][]window // what guests have issued
	ours   []*issuing
}

// A guest does what shogo82148/yaraus's scripts do. It issues ids by a clock of its own that is up to MaxSkew wrong,
// without a break from when it has the worker id until it goes.
type guest struct {
	member, owner string
	worker        uint64
	offset        int64 // of its clock
	next          int64
}

// issuing is a daemon of ours and what it last issued.
type issuing struct {
	*daemon
	last int64
}

func (m *migration) step() {
	switch n := m.rand.IntN(12); {
	case n == 0:
		if g := m.arrive(fmt.Sprint("host-1.000-", m.rand.Uint64())); g != nil {
			g.offset = m.rand.Int64N(4001) - 2000
			g.next += g.offset
			m.guests = append(m.guests, g)
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
		g := m.guests[i]
		m.guests = slices.Delete(m.guests, i, i+1)
		m.issue(g)
		if m.rand.IntN(3) > 0 {
			m.server.Do("HDEL", m.key("clients"), g.member)
			m.server.Do("ZADD", m.key("ids"), float64(m.now())/1000, g.member)
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
	for _, g := range m.guests {
		if m.server.Do("HGET", m.key("clients"), g.member) != g.owner {
			m.Errorf("%s lost worker id %d", g.owner, g.worker)
		}
		m.server.Do("ZADD", m.key("ids"), float64(m.now()+yarausExpire)/1000, g.member)
		m.issue(g)
	}
	for _, d := range m.ours {
		if err := d.tryExtend(redislink.Patience); err != nil && !late(err) {
			m.Errorf("extend: %v", err)
		}
		d.last = max(d.last, min(d.grant.Hi, d.c.Now()+1000)) // it issues up to a second ahead of its clock
	}
}

// issue notes what a guest has issued meanwhile.
func (m *migration) issue(g *guest) {
	if now := m.now() + g.offset; g.next <= now {
		m.used[g.worker] = append(m.used[g.worker], window{g.owner, g.next, now})
		g.next = now + 1
	}
}

const (
	yarausExpire = 1800_000 // ms
	yarausDelay  = 2000
)

// arrive takes a worker id, if there is one.
func (m *migration) arrive(owner string) *guest {
	now := float64(m.now()) / 1000
	first := m.server.Do("ZRANGE", m.key("ids"), 0, 0, "WITHSCORES").([]any)
	score, _ := strconv.ParseFloat(first[1].(string), 64)
	if score >= now {
		return nil
	}
	member := first[0].(string)
	worker, err := script.ParseMember(member)
	if err != nil {
		m.Error(err)
	}
	m.server.Do("ZADD", m.key("ids"), now+yarausExpire/1000, member)
	m.server.Do("HSET", m.key("clients"), member, owner)
	return &guest{member: member, owner: owner, worker: worker, next: m.now() + yarausDelay}
}

// TestMigrationFromYaraus runs random histories, or that of KATSUBUSHI_SEED alone.
func TestMigrationFromYaraus(t *testing.T) {
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
		m := &migration{world: worldOf(t, server), rand: rand.New(rand.NewPCG(seed, 0)), used: map[uint64][]window{}}
		m.run()
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

func (m *migration) run() {
	m.server.Do("FLUSHALL")
	m.config.Max = 6
	for n := range 6 {
		m.server.Do("ZADD", m.key("ids"), 0, script.Member(uint64(n+1)))
	}
	m.server.Do("HSET", m.key("stats"), "min", 1, "max", 6)
	m.arrive("host-1.000-0") // that one was killed
	if got := m.init(New); got != Adopted {
		m.Errorf("init: %s", got)
	}
	for range 250 {
		m.step()
	}
}
