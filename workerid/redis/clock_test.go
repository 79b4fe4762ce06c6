package redis

import (
	"context"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const (
	skew      = 2000  // ms, the default
	clockHold = 50000 // ms for which a clock that went forward must have lasted
)

// clocked is a daemon whose clock differs from the others'.
func (w *world) clocked(off *int64) *daemon {
	return w.daemon(func(c *Config) { c.Now = func() int64 { return w.now() + *off } })
}

// Clocks differ by more than MaxSkew, and Redis's clock goes back by more than that.
func TestClockOfRedis(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	skewed := int64(0)
	slow := w.daemon(func(c *Config) { c.Now = func() int64 { return w.now() + skewed } })
	for _, skewed = range []int64{2001, -2001} {
		w.want(slow.tryAcquire(redislink.Patience), workerid.ErrSkew)
	}
	skewed = -2000
	slow.acquire()

	w.advance(-2000) // as much as a fail-over may bring: time stands still
	d.extendTo(d.now() + 2000 + lease)
	w.advance(-1)
	w.want(d.tryExtend(redislink.Patience), ErrClockBack)
	w.want(w.daemon().tryAcquire(redislink.Patience), ErrClockBack)

	w.advance(-3600000)
	if s, err := w.pool().Stats(context.Background()); err != nil || s.ClockBack != 3602.001 {
		t.Errorf("%+v, %v", s, err)
	}
	r, err := w.pool().ResetClock(context.Background())
	if err != nil || r.Was.Sub(r.Now) != 3602001*time.Millisecond || r.WaitsUntil.Sub(r.Now) != long*time.Millisecond {
		t.Errorf("%+v, %v", r, err)
	}
	again, err := w.pool().ResetClock(context.Background())
	w.want(err, ErrClockSteady)
	if again != (ClockReset{}) {
		t.Errorf("%+v", again)
	}
	before := d.grant.Hi
	if err := d.tryExtend(redislink.Patience); err != nil || d.grant.Hi != before {
		t.Errorf("%+v, %v", d.grant, err)
	}
	w.waits(w.daemon(), w.now())
}

// Redis lost everything and comes up with a clock that is behind. A wait that an operator starts there
// would be over as soon as the clock is corrected, while older windows are not over. So operators are
// refused like daemons, and nothing is written.
func TestInitWhileTheClockIsWrong(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	w.server.Do("FLUSHALL")
	for _, ahead := range []int64{-3600000, 2001} {
		w.ahead.Store(ahead)
		w.want(d.tryExtend(redislink.Patience), workerid.ErrSkew)
		for _, how := range []How{Wait, New, Replace} {
			_, err := w.pool().initialise(t.Context(), how)
			w.want(err, workerid.ErrSkew)
		}
	}
	w.ahead.Store(0)
	newcomer := w.daemon()
	w.want(newcomer.tryAcquire(redislink.Patience), ErrNotInitialised)
	w.init(Wait)
	loss := w.now()
	d.extend()
	w.waits(newcomer, loss)
}

func (d *daemon) extendTo(hi int64) {
	d.Helper()
	if err := d.tryExtend(redislink.Patience); err != nil || d.grant.Hi != hi {
		d.Fatalf("%+v, %v; should reach %d", d.grant, err, hi)
	}
}

// The clocks of a master and its successor are as far apart as allowed, in either direction, and
// the last writes are lost. On the successor, newcomers start above everything that the old master
// granted, and a daemon whose worker id had passed to another one there does not get it back.
func TestRedisClockAtFailOver(t *testing.T) {
	for name, ahead := range map[string]int64{"the old one was ahead": skew, "the new one is ahead": -skew} {
		t.Run(name, func(t *testing.T) { testClockAtFailOver(t, ahead, true) })
		t.Run(name+" and nobody survives", func(t *testing.T) { testClockAtFailOver(t, ahead, false) })
	}
}

func testClockAtFailOver(t *testing.T, ahead int64, survivors bool) {
	p := newPair(t)
	p.config.Max = 4
	p.ahead.Store(ahead)
	holders := p.holders(3)
	asleep, awake := holders[0], holders[1:]
	p.catchUp()
	p.advance(20000)
	for _, d := range awake {
		d.extend()
	}
	p.catchUp()
	p.replication.Answers(redistest.Drop)
	p.advance(asleep.grant.Hi - p.redisNow() + 1)
	successor, dead := p.daemon(), p.daemon()
	dead.acquire()
	successor.acquire()
	if dead.grant.Worker != 4 || successor.grant.Worker != asleep.grant.Worker {
		t.Fatalf("%+v, %+v", dead.grant, successor.grant)
	}
	for _, d := range awake {
		d.extend()
	}
	p.server.Kill()
	p.failOver()
	p.ahead.Store(-ahead)
	if awake = append(awake, successor); !survivors {
		awake = nil
		p.want(p.daemon().settleAcquire(), workerid.ErrNoID)
	}
	p.want(asleep.settle(), workerid.ErrLost)
	p.keepTheirIDs(awake)
	p.want(asleep.settle(), workerid.ErrLost)
	for granted := len(awake); granted < 4; { // book sees that nothing overlaps
		p.advance(1000)
		for _, d := range awake {
			d.extend()
		}
		if p.now() > dead.grant.Hi+2*long {
			t.Fatalf("%d of 4 worker ids are granted", granted)
		}
		if p.daemon().tryAcquire(redislink.Patience) == nil {
			granted++
		}
	}
}

// All clocks are an hour ahead, for example because they follow a wrong one, and are then corrected.
func TestRedisAndDaemonWrongTogether(t *testing.T) {
	const hour = 3600000
	w := newWorld(t)
	d := w.holders(1)[0]
	w.advance(hour)
	d.extend() // the hour before is lost to its window, no more
	gone := w.daemon()
	gone.acquire()
	w.advance(-hour)
	for range 3 { // what d was granted lies far ahead, and nothing is granted below it
		w.advance(5000)
		w.want(d.tryExtend(redislink.Patience), ErrClockBack)
		w.want(w.daemon().tryAcquire(redislink.Patience), ErrClockBack)
	}
	if _, err := w.pool().ResetClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.waits(w.daemon(), w.now()) // the third worker id, which was never granted for the false future
	w.want(w.daemon().tryAcquire(redislink.Patience), workerid.ErrNoID)
	w.advance(hour)
	next := w.daemon()
	w.want(next.tryAcquire(redislink.Patience), ErrClockForward)
	w.advance(clockHold)
	after := map[uint64]int64{}
	for range 3 {
		next = w.daemon()
		next.acquire()
		after[next.grant.Worker] = next.grant.Lo
	}
	if after[d.grant.Worker] != d.grant.Hi+1 || after[gone.grant.Worker] != gone.grant.Hi+1 {
		t.Errorf("%v after %+v and %+v", after, d.grant, gone.grant)
	}
}

// Redis's clock is smeared by a second, first one way and then the other, and the daemons' are not.
func TestLeapSecondSmear(t *testing.T) {
	w := newWorld(t)
	holders := w.holders(2)
	for _, step := range []int64{100, -100, -100, 100} {
		for range 10 {
			w.ahead.Add(step)
			w.advance(5000)
			for _, d := range holders {
				d.extend()
			}
			n := w.daemon()
			n.acquire()
			if err := n.release(w.now()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A daemon's clock goes forward by an hour and back. The daemon is refused meanwhile, and its lease
// does not get longer.
func TestDaemonClockForwardThenBack(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.advance(1)
	var off int64
	d := w.clocked(&off)
	d.acquire()
	for _, off = range []int64{3600000, -3600000, skew + 1, -skew - 1} {
		w.want(d.tryExtend(redislink.Patience), workerid.ErrSkew)
		w.want(w.clocked(&off).tryAcquire(redislink.Patience), workerid.ErrSkew)
	}
	off = 0
	w.advance(5000)
	d.extendTo(w.now() + lease)
}

// A worker id goes from a host whose clock is fast, and which issued a second ahead of that, to one
// whose clock is slow.
func TestFastHostHandsToSlowHost(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	w.init(New)
	w.advance(1)
	fast, slow := int64(skew), int64(-skew)
	from, to := w.clocked(&fast), w.clocked(&slow)
	from.acquire()
	w.advance(5000)
	from.extend()
	last := w.now() + fast + 1000
	if err := from.release(last); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	if to.acquire(); to.grant.Lo != last+1 {
		t.Errorf("%+v after %d", to.grant, last)
	}
}

// A daemon stops cleanly and starts again before the millisecond is over.
func TestRestartInTheSameMillisecond(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	d := w.holders(1)[0]
	if err := d.release(w.now()); err != nil {
		t.Fatal(err)
	}
	again := w.daemon()
	w.want(again.tryAcquire(redislink.Patience), workerid.ErrNoID) // this one still has ids
	w.advance(1)
	if again.acquire(); again.grant.Lo != w.now() {
		t.Errorf("%+v", again.grant)
	}
}

// A daemon is killed and starts again with a clock that went back. It is refused while the
// difference is more than MaxSkew, and then gets a window above its old one.
func TestRestartThreeSecondsBack(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	killed := w.holders(1)[0]
	off := int64(-3000)
	again := w.clocked(&off)
	w.advance(killed.grant.Hi - w.now() + 1)
	w.want(again.tryAcquire(redislink.Patience), workerid.ErrSkew)
	off = -skew
	if again.acquire(); again.grant.Lo != killed.grant.Hi+1 {
		t.Errorf("%+v after %+v", again.grant, killed.grant)
	}
}

// A fail-over loses the last writes, and the new server's clock is an hour behind. If an operator
// could accept that clock, the wait for forgotten grants would end when the clock is corrected. So
// operators are refused like daemons.
func TestAcceptingAWrongClock(t *testing.T) {
	p := newPair(t)
	p.holders(2)
	p.catchUp()
	p.replication.Answers(redistest.Drop)
	p.daemon().acquire()
	p.server.Kill()
	p.failOver()
	if p.record3() != "" {
		t.Fatal("nothing was lost")
	}
	p.ahead.Store(-3600000)
	p.want(p.daemon().settleAcquire(), workerid.ErrSkew)
	_, err := p.pool().ResetClock(t.Context())
	p.want(err, workerid.ErrSkew)
	p.ahead.Store(0)
	loss := p.now()
	p.waits(p.daemon(), loss)
}

// A healthy pool's clock cannot be reset, because newcomers would wait for nothing.
func TestResetClockOfAHealthyPool(t *testing.T) {
	w := newWorld(t)
	w.holders(1)
	_, err := w.pool().ResetClock(t.Context())
	w.want(err, ErrClockSteady)
	w.daemon().acquire()
	w.advance(-skew) // so much is not refused to daemons either
	_, err = w.pool().ResetClock(t.Context())
	w.want(err, ErrClockSteady)
}

// How long newcomers wait after the clock was accepted depends on the pool, not on the operator's
// flags.
func TestResetClockWaitsForThePoolsLease(t *testing.T) {
	for _, pools := range []time.Duration{20 * time.Second, 5 * time.Minute} {
		t.Run(pools.String(), func(t *testing.T) {
			w := newWorld(t)
			w.config.Lease, w.config.MaxSkew = pools, time.Second
			w.init(New)
			w.advance(1)
			d := w.daemon()
			d.acquire()
			w.advance(-int64(time.Hour / time.Millisecond))
			w.config.Lease, w.config.MaxSkew = 0, 0
			r, err := w.pool().ResetClock(t.Context())
			if err != nil || r.WaitsUntil.Sub(r.Now) != pools+3*time.Second {
				t.Errorf("%+v, %v: a wait of %v", r, err, r.WaitsUntil.Sub(r.Now))
			}
			if d.tryExtend(redislink.Patience) != nil {
				t.Error("the holder lost its worker id")
			}
			w.server.Do("HSET", w.key("meta"), "lmax", "inf", "seen", w.now()+100_000) // nobody can read it
			w.config.Lease = 3 * time.Minute
			if r, err := w.pool().ResetClock(t.Context()); err != nil ||
				r.WaitsUntil.Sub(r.Now) != w.config.Lease+3*time.Second {
				t.Errorf("%+v, %v: a wait of %v", r, err, r.WaitsUntil.Sub(r.Now))
			}
		})
	}
}

// The clocks of Redis and of a host are an hour ahead for a moment. Just then a supervisor restarts
// a daemon on that host, and an operator takes a worker id away. That time must not be recorded:
// the other daemons, whose clocks are right, would be refused for an hour.
func TestMomentarilyWrongClock(t *testing.T) {
	const hour = 3600000
	w := newWorld(t)
	holders := w.holders(2)
	wrong := func(c *Config) { c.Now = func() int64 { return w.now() + hour } }
	fresh := w.daemon(wrong)
	host := w.config
	wrong(&host)
	operator, err := OpenPool(host)
	if err != nil {
		t.Fatal(err)
	}
	w.fake(operator.wire)
	t.Cleanup(func() { operator.Close() })

	w.ahead.Store(hour)
	for range 40 { // 4 s
		w.want(fresh.tryAcquire(redislink.Patience), ErrClockForward)
		w.want(holders[0].tryExtend(redislink.Patience), workerid.ErrSkew)
		w.advance(100)
	}
	_, err = w.pool().Release(t.Context(), 2)
	w.want(err, workerid.ErrSkew) // as init is
	if _, err := operator.Release(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	_, err = operator.ResetClock(t.Context())
	w.want(err, ErrClockSteady)
	_, err = operator.initialise(t.Context(), Replace)
	w.want(err, ErrClockForward)

	w.ahead.Store(0)
	holders[0].extend()
	w.want(holders[1].tryExtend(redislink.Patience), workerid.ErrLost)
	w.daemon().acquire() // the third worker id, at once
	w.clock.Store(holders[1].grant.Hi + 1)
	holders[0].extend()
	if next := w.daemon(); next.tryAcquire(redislink.Patience) != nil || next.grant.Worker != holders[1].grant.Worker {
		t.Errorf("what an operator took away is granted as %+v", next.grant)
	}
}

// All daemons are gone for longer than a lease and gave nothing back. The first newcomer cannot
// tell that from a wrong clock and waits until it has lasted; the second need not wait.
func TestANewcomerAfterAllWereKilled(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 2
	w.holders(2)
	w.advance(long)
	gone := w.now() - long // nobody was heard of since
	w.daemon().acquire()
	w.clock.Store(gone + 2*long + 1)
	first, second := w.daemon(), w.daemon()
	came := w.now()
	for w.now() < came+clockHold {
		w.want(first.tryAcquire(redislink.Patience), ErrClockForward)
		w.advance(5000)
	}
	first.acquire()
	second.acquire()
	w.advance(24 * 3600000)
	w.server.Do("DEL", w.key("clients")) // all have given theirs back
	w.daemon().acquire()
}
