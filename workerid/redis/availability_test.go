package redis

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// The tests in this file hold docs/REDIS.md to what it says under "What to expect".

const heartbeat = 5000 // ms

// outage lets Redis be away for a while, in which no daemon's window ends: heartbeats fail, the
// last of them just before it is back.
func (p *pair) outage(holders []*daemon, ms int64, begin, end func()) {
	p.Helper()
	p.advance(heartbeat - 1) // it had not been its turn
	begin()
	for left := ms; left > 0; left -= heartbeat {
		p.advance(min(left, heartbeat))
		for _, d := range holders {
			if p.now() > d.grant.Hi {
				p.Fatalf("at %d the window %+v is over", p.now(), d.grant)
			}
			if err := d.tryExtend(soon / 6); err == nil {
				p.Fatal("there was no outage")
			}
		}
	}
	end()
	p.keepTheirIDs(holders)
}

func TestHoldersAreNotRefused(t *testing.T) {
	for _, c := range []struct {
		name       string
		ms         int64
		begin, end func(p *pair)
	}{
		{"restart", heartbeat, func(p *pair) { p.server.Kill() }, func(p *pair) { p.server.Launch() }},
		{"fail-over of 2 s", 2000, func(p *pair) { p.server.Kill() }, (*pair).failOver},
		{"fail-over of 30 s", 30000, func(p *pair) { p.server.Kill() }, (*pair).failOver},
		{"FLUSHALL", 0, func(*pair) {}, func(p *pair) { p.server.Do("FLUSHALL") }},
		{"stall of 1 s", 1000, func(p *pair) { p.server.Pause() }, func(p *pair) { p.server.Resume() }},
		{"stall of half a lease", lease / 2, func(p *pair) { p.server.Pause() }, func(p *pair) { p.server.Resume() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t)
			holders := p.holders(2)
			p.outage(holders, c.ms, func() { c.begin(p) }, func() { c.end(p) })
		})
	}
}

// Any fail-over that is shorter than a lease, without what clocks may be apart, costs nobody a
// worker id; a longer one does, since somebody else may have been granted it and been forgotten.
func TestFailOverShorterThanALease(t *testing.T) {
	p := newPair(t)
	holders := p.holders(2)
	p.catchUp()
	p.server.Kill()
	p.failOver()
	p.clock.Store(holders[0].grant.Hi - eps - 1)
	p.want(p.daemon().settleAcquire(), workerid.ErrNoID)
	holders[0].extend()
	p.advance(1)
	p.want(holders[1].settle(), workerid.ErrLost)
	p.keepTheirIDs(holders[:1])
}

func TestNewcomersWaitALeaseAndEpsilon(t *testing.T) {
	for name, change := range map[string]func(p *pair){
		"restart": func(p *pair) {
			p.server.Kill()
			p.server.Launch()
		},
		"FLUSHALL": func(p *pair) { p.server.Do("FLUSHALL") },
		"fail-over": func(p *pair) {
			p.server.Kill()
			p.failOver()
		},
		"fail-back": func(p *pair) {
			p.server.Do("REPLICAOF", "127.0.0.1", 1) // nobody there
			p.server.Promote()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.config.AutoInit = true // nobody is left who could make the pool again
			p.holders(2)
			p.catchUp()
			change(p)
			newcomer := p.daemon()
			p.want(newcomer.settleAcquire(), workerid.ErrNoID)
			p.waits(newcomer, p.now())
		})
	}
}

func TestKilledHolderInAFullPool(t *testing.T) {
	w := newWorld(t)
	killed := w.holders(3)[1]
	last, next := w.now(), w.daemon()
	for w.now() < killed.grant.Hi {
		w.advance(min(heartbeat, killed.grant.Hi-w.now()))
		w.want(next.tryAcquire(redislink.Patience), workerid.ErrNoID)
	}
	w.advance(1)
	if next.acquire(); w.now() > last+lease+1 || next.grant.Lo > w.now() {
		t.Errorf("%d ms after its last extension: %+v", w.now()-last, next.grant)
	}
}

// Redis is away for longer than a lease, and comes back as it was: the first call that it answers
// makes every window longer, from its old end.
func TestOutageOfALeaseOrMore(t *testing.T) {
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	p := redistest.NewProxy(t, w.server.Addr())
	holders := w.holders(2, w.through(p))
	w.advance(heartbeat)
	p.Refuse(true)
	p.Cut()
	for range 15 {
		for _, d := range holders {
			w.uncertain(d.tryExtend(redislink.Patience))
		}
		w.advance(heartbeat)
	}
	if w.now() <= holders[0].grant.Hi {
		t.Fatal("the window is not over")
	}
	p.Refuse(false)
	for _, d := range holders {
		before := d.grant
		if err := d.tryExtend(redislink.Patience); err != nil || d.grant.Hi != w.now()+lease || d.grant.Lo != before.Lo {
			t.Errorf("%+v after %+v: %v", d.grant, before, err)
		}
	}
}
