package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// fakeTime lets a script see the clock that is its last argument.
const fakeTime = `
local redis = (function(real)
  local now = tonumber(table.remove(ARGV))
  local function call(command, ...)
    if command == 'TIME' then return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)} end
    return real.call(command, ...)
  end
  return setmetatable({call = call}, {__index = real})
end)(redis)
`

const (
	lease = 60000 // ms
	eps   = 5000
	long  = lease + eps // after this, whatever may have been forgotten is over
)

// A world is a Redis and daemons, whose clocks all go by one that only the test moves; Redis's may
// be ahead of it.
type world struct {
	*testing.T
	server    *redistest.Server
	config    Config
	namespace string // as keys begin with it

	clock *atomic.Int64
	ahead atomic.Int64 // ms of Redis's clock before the daemons'

	mu      sync.Mutex
	windows map[uint64][]window
}

// A window is a stretch of time that a daemon was granted for a worker id.
type window struct {
	owner  string
	lo, hi int64
}

// book checks that a window was not granted to anyone else.
func (w *world) book(worker uint64, n window) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.windows[worker] {
		if n.lo <= n.hi && o.lo <= n.hi && n.lo <= o.hi {
			w.Errorf("worker id %d: %+v overlaps %+v", worker, n, o)
		}
	}
	w.windows[worker] = append(w.windows[worker], n)
}

// cut ends an owner's windows at last: the rest was given back.
func (w *world) cut(worker uint64, owner string, last int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, o := range w.windows[worker] {
		if o.owner == owner {
			w.windows[worker][i].hi = min(o.hi, last)
		}
	}
}

var startOfTime = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

func worldOf(t *testing.T, s *redistest.Server) *world {
	w := &world{T: t, server: s, namespace: redistest.Namespace(t), clock: &atomic.Int64{}, windows: map[uint64][]window{}}
	w.clock.Store(startOfTime)
	w.config = Config{URL: s.URL(), Terms: workerid.Terms{Layout: "test", Min: 1, Max: 3, Now: w.now}}
	return w
}

func (w *world) now() int64 { return w.clock.Load() }

func (w *world) advance(ms int64) { w.clock.Add(ms) }

// redisNow is what Redis's clock shows.
func (w *world) redisNow() int64 { return w.now() + w.ahead.Load() }

func (w *world) key(name string) string { return w.namespace + ":" + name }

// fake makes a wire's scripts see the world's clock.
func (w *world) fake(wire *wire) {
	wire.prepare = func(text string, args []string) (string, []string) {
		return fakeTime + text, append(args, strconv.FormatInt(w.redisNow(), 10))
	}
}

// daemon is a daemon's store. change changes its settings.
func (w *world) daemon(change ...func(*Config)) *daemon {
	w.Helper()
	c := w.config
	for _, f := range change {
		f(&c)
	}
	s, err := Open(c)
	if err != nil {
		w.Fatal(err)
	}
	w.fake(s.wire)
	w.Cleanup(func() { s.Close() })
	return &daemon{Store: s, world: w, owner: workerid.NewOwner()}
}

// late reports whether Redis did not answer in time.
func late(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

// unsent reports whether Redis was not connected in time.
func unsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" && dial.Timeout()
}

// again makes a call up to twelve times, while its error may be that of a busy machine, as a keeper and an operator do.
func again[T any](busy func(error) bool, call func() (T, error)) (answer T, err error) {
	for range 12 {
		if answer, err = call(); !busy(err) {
			break
		}
	}
	return answer, err
}

// An operator uses a pool, and tries again.
type operator struct{ *Pool }

func (o operator) List(ctx context.Context) ([]workerid.Lease, error) {
	return again(late, func() ([]workerid.Lease, error) { return o.Pool.List(ctx) })
}

func (o operator) Stats(ctx context.Context) (Stats, error) {
	return again(late, func() (Stats, error) { return o.Pool.Stats(ctx) })
}

func (o operator) Release(ctx context.Context, worker uint64) (workerid.Freed, error) {
	return again(unsent, func() (workerid.Freed, error) { return o.Pool.Release(ctx, worker) })
}

func (o operator) ResetClock(ctx context.Context) (ClockReset, error) {
	return again(unsent, func() (ClockReset, error) { return o.Pool.ResetClock(ctx) })
}

func (o operator) initialise(ctx context.Context, how How) (string, error) {
	return again(unsent, func() (string, error) { return o.Pool.initialise(ctx, how) })
}

func (w *world) pool() operator {
	w.Helper()
	p, err := OpenPool(w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.fake(p.wire)
	w.Cleanup(func() { p.Close() })
	return operator{p}
}

// init makes the pool without listening first.
func (w *world) init(how How) string {
	w.Helper()
	result, err := w.pool().initialise(context.Background(), how)
	if err != nil {
		w.Fatalf("init %s: %v", how, err)
	}
	return result
}

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// A daemon is one that holds at most one worker id, and checks what it is told.
type daemon struct {
	*Store
	*world
	owner string
	grant workerid.Grant
}

// tryAcquire acquires a worker id. With redislink.Patience it tries again while Redis is late.
func (d *daemon) tryAcquire(timeout time.Duration) error {
	return d.try(timeout, d.acquireIn)
}

// try makes a call within a time. If that is redislink.Patience, the call is meant to be answered.
func (d *daemon) try(timeout time.Duration, call func(context.Context) error) error {
	meant := func(err error) bool { return timeout == redislink.Patience && late(err) }
	_, err := again(meant, func() (any, error) {
		ctx, cancel := within(timeout)
		defer cancel()
		return nil, call(ctx)
	})
	return err
}

func (d *daemon) acquireIn(ctx context.Context) error {
	g, err := d.Acquire(ctx, workerid.Request{Owner: d.owner, Min: d.c.Min, Max: d.c.Max})
	if err == nil || errors.Is(err, workerid.ErrUnconfirmed) {
		if g.Owner != d.owner || g.Worker < d.c.Min || g.Worker > d.c.Max || g.Hi > max(d.redisNow()+d.terms.Lease, g.Lo-1) {
			d.Errorf("%s was granted %+v at %d", d.owner, g, d.now())
		}
		d.grant = g
		if err != nil {
			d.grant.Hi = g.Lo - 1
		}
		d.book(g.Worker, window{d.owner, g.Lo, d.grant.Hi})
	}
	return err
}

func (d *daemon) acquire() workerid.Grant {
	d.Helper()
	if err := d.tryAcquire(redislink.Patience); err != nil {
		d.Fatalf("acquire: %v", err)
	}
	return d.grant
}

// holder is a daemon that has a worker id of a new pool.
func (w *world) holder() *daemon {
	w.Helper()
	w.init(New)
	w.advance(1)
	d := w.daemon()
	d.acquire()
	d.mustExtend()
	return d
}

// mustExtend lengthens the grant.
func (d *daemon) mustExtend() {
	d.Helper()
	if err := d.settle(); err != nil {
		d.Fatalf("extend %+v at %d: %v", d.grant, d.now(), err)
	}
}

// tryExtend lengthens the grant. With redislink.Patience it tries again while Redis is late.
func (d *daemon) tryExtend(timeout time.Duration) error { return d.try(timeout, d.extendIn) }

func (d *daemon) extendIn(ctx context.Context) error {
	r, err := d.Extend(ctx, []workerid.Grant{d.grant})
	if err != nil {
		return err
	}
	if r[0].Err != nil {
		return r[0].Err
	}
	if g := r[0].Grant; g.Worker != d.grant.Worker || g.Lo != d.grant.Hi+1 ||
		g.Hi > max(d.redisNow()+d.terms.Lease, d.grant.Hi) {
		d.Errorf("%+v was extended to %+v at %d", d.grant, g, d.now())
	}
	d.book(d.grant.Worker, window{d.owner, r[0].Grant.Lo, r[0].Grant.Hi})
	d.grant.Hi = max(d.grant.Hi, r[0].Grant.Hi)
	return nil
}

// settle tries to extend until the answer is certain, as a daemon's keeper does.
func (d *daemon) settle() error {
	err := d.tryExtend(redislink.Patience)
	for range 5 {
		if err == nil || errors.Is(err, workerid.ErrLost) || errors.Is(err, workerid.ErrCloned) {
			break
		}
		err = d.tryExtend(redislink.Patience)
	}
	return err
}

func (d *daemon) release(last int64) error {
	ctx, cancel := within(redislink.Patience)
	defer cancel()
	err := d.Release(ctx, d.grant, last)
	if err == nil || late(err) { // then it may have been carried out
		d.cut(d.grant.Worker, d.owner, last)
	}
	return err
}

// remembered is a copy of the daemon's memory.
func (d *daemon) remembered() *script.Memory {
	d.wire.Turn <- struct{}{}
	defer func() { <-d.wire.Turn }()
	return copied.Of(&d.memory)
}

// requests counts those that the record may be of.
func (d *daemon) requests() int {
	return len(d.remembered().Releasing(script.Release{Grant: d.grant}).Known)
}
