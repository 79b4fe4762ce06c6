package cas_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

var ctx = context.Background()

// The figures of all tests here, ms.
const (
	start   = int64(1_800_000_000_000)
	lease   = int64(30_000)
	epsilon = int64(5_000)
	skew    = int64(2_000)
	watch   = int64(3_100) // for a heartbeat of 1 s, and calls of 1 s
)

// hooked returns a driver that has around called for all that is asked of the store.
func hooked(s *memcas.Server, around func(ctx context.Context, what string, call func() error) error) *memcas.Driver {
	return &memcas.Driver{Server: s, Ask: func(ctx context.Context, what string, request func() (any, error)) (v any,
		err error) {
		err = around(ctx, what, func() (err error) {
			v, err = request()
			return err
		})
		return v, err
	}}
}

// A tally counts what was asked, and notes for how long each of it might take.
type tally struct {
	mu     sync.Mutex
	asked  map[string]int
	limits map[string]time.Duration
	down   atomic.Bool // no connection is made
	hangs  atomic.Bool // nothing that is read is answered
}

func newTally() *tally { return &tally{asked: map[string]int{}, limits: map[string]time.Duration{}} }

// limit returns for how long what was asked last might take; 0 = it was not asked since the last time.
func (t *tally) limit(what string) time.Duration {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.limits[what]
	delete(t.limits, what)
	return limit
}

func (t *tally) around(ctx context.Context, what string, call func() error) error {
	deadline, _ := ctx.Deadline()
	t.mu.Lock()
	t.asked[what]++
	t.limits[what] = time.Until(deadline)
	t.mu.Unlock()
	if what == "read" && t.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if what == "connect" && t.down.Load() {
		return errLost
	}
	return call()
}

// A world is a store in memory, a clock that nobody sets, and id clocks.
type world struct {
	*testing.T
	server *memcas.Server
	boot   int64 // ms
	wrong  int64 // of the operator's clock
}

func newWorld(t *testing.T) *world {
	w := &world{T: t}
	w.server = memcas.NewServer(func() int64 { return w.boot }, lease/2)
	return w
}

func (w *world) now() int64 { return start + w.boot }

func (w *world) terms(lo, hi uint64) workerid.Terms {
	return workerid.Terms{
		Layout: "t41-w10", Min: lo, Max: hi, Lease: time.Duration(lease) * time.Millisecond, Heartbeat: time.Second,
		Now: func() int64 { return w.now() + w.wrong },
	}
}

func (w *world) config(t workerid.Terms) cas.Config {
	return cas.Config{
		Terms: t, Driver: &memcas.Driver{Server: w.server}, Kind: "memcas", Where: "memory", Path: "/pool/",
		Addr: "host:11212",
		Boot: func() int64 { return w.boot * int64(time.Millisecond) },
	}
}

func (w *world) admin(t workerid.Terms) *cas.Admin {
	w.Helper()
	a, err := cas.OpenAdmin(w.config(t))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { a.Close() })
	return a
}

// init makes a pool whose worker ids are available at once.
func (w *world) init(lo, hi uint64) {
	w.Helper()
	if result, err := w.admin(w.terms(lo, hi)).Init(ctx, workerid.InitNew); err != nil || result != workerid.InitMade {
		w.Fatalf("Init: %q, %v", result, err)
	}
	w.boot += 10
}

// A daemon is a Session with its own clock.
type daemon struct {
	*cas.Session
	w     *world
	wrong int64 // of its id clock, ms
	owner string
}

func (w *world) daemon(owner string, lo, hi uint64) *daemon {
	d := &daemon{w: w, owner: owner}
	d.Session = &cas.Session{
		Driver: &memcas.Driver{Server: w.server}, Addr: owner + ":11212", Path: "/pool/",
		Rules: pool.Rules{W: time.Duration(watch) * time.Millisecond, MaxSkew: skew},
		Pool:  pool.Meta{Fingerprint: "t41-w10", Lease: lease, Epsilon: epsilon, Min: lo, Max: hi},
		Now: func() pool.Moment {
			return pool.Moment{Boot: time.Duration(w.boot) * time.Millisecond, ID: w.now() + d.wrong, Wall: w.now() + d.wrong}
		},
	}
	return d
}

func (d *daemon) want() workerid.Request {
	return workerid.Request{Owner: d.owner, Min: d.Pool.Min, Max: d.Pool.Max}
}

// acquire watches, twice if it must, and returns what it is granted.
func (d *daemon) acquire() (workerid.Grant, error) {
	g, err := d.Acquire(ctx, d.want())
	for range 3 {
		if errors.As(err, &cas.Watching{}) {
			d.w.boot += watch
			g, err = d.Acquire(ctx, d.want())
		}
	}
	if err == nil {
		d.Heard(g)
	}
	return g, err
}

func (d *daemon) mustAcquire() workerid.Grant {
	d.w.Helper()
	g, err := d.acquire()
	if err != nil {
		d.w.Fatalf("%s: Acquire: %v", d.owner, err)
	}
	return g
}

// extend is of one lane. It returns the window as it is now.
func (d *daemon) extend(g workerid.Grant) (workerid.Grant, error) {
	r, err := d.Extend(ctx, []workerid.Grant{g})
	if err == nil {
		err = r[0].Err
	}
	if err == nil {
		g.Hi = max(g.Hi, r[0].Grant.Hi)
	}
	return g, err
}

func (d *daemon) mustExtend(g workerid.Grant) workerid.Grant {
	d.w.Helper()
	g, err := d.extend(g)
	if err != nil {
		d.w.Fatalf("%s: Extend: %v", d.owner, err)
	}
	return g
}

func (w *world) record(worker uint64) pool.Record {
	w.Helper()
	r, err := pool.ParseRecord(w.server.Record(worker))
	if err != nil {
		w.Fatal(err)
	}
	return r
}
