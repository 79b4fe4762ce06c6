package workerid_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/memstore"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// lanes are what a daemon has behind a Keeper, in the simplest way.
type lanes []atomic.Pointer[generator.Snowflake]

func (l lanes) Publish(lane int, worker uint64, lo, hi int64) error {
	g, err := generator.NewSnowflake(generator.Options{Layout: generator.Katsubushi(), Worker: worker, Lo: lo, Hi: hi})
	if err == nil {
		l[lane].Store(g)
	}
	return err
}
func (l lanes) Extend(lane int, lo, hi int64) error { return l[lane].Load().Extend(lo, hi) }
func (l lanes) Seal(lane int) (last int64)          { return l[lane].Load().Seal() }

func (l lanes) take(lane int) error {
	g := l[lane].Load()
	if g == nil {
		return errors.New("no generator")
	}
	_, err := g.Take(now(), now()+1000, 1)
	return err
}

// now is the clock of a bubble, which begins in the year 2000, before the layout's epoch.
func now() int64 { return time.Now().AddDate(25, 0, 0).UnixMilli() }

// A faulty store fails or hangs when it is told to.
type faulty struct {
	workerid.Store
	err  atomic.Pointer[error]
	hang atomic.Bool
	// Extend returns only when it is closed, whatever its context says; nil = at once.
	deaf     atomic.Pointer[chan struct{}]
	released atomic.Int64 // calls of Release
}

func (f *faulty) fail(err error) { f.err.Store(&err) }

func (f *faulty) trouble(ctx context.Context) error {
	if f.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// errNoExtension fails extensions alone.
var errNoExtension = errors.New("no extension")

func (f *faulty) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if err := f.trouble(ctx); err != nil && err != errNoExtension {
		return workerid.Grant{}, err
	}
	return f.Store.Acquire(ctx, want)
}

func (f *faulty) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if hears := f.deaf.Load(); hears != nil {
		<-*hears
	}
	// of each lane by itself
	if err := f.trouble(ctx); errors.Is(err, workerid.ErrLost) || errors.Is(err, workerid.ErrShared) {
		return slices.Repeat([]workerid.Result{{Err: err}}, len(held)), nil
	} else if err != nil {
		return nil, err
	}
	return f.Store.Extend(ctx, held)
}

func (f *faulty) Release(ctx context.Context, g workerid.Grant, last int64) error {
	f.released.Add(1)
	if err := f.trouble(ctx); err != nil {
		return err
	}
	return f.Store.Release(ctx, g, last)
}

type bed struct {
	*testing.T
	keeper *workerid.Keeper
	lanes  lanes
	pool   *memstore.Pool
	store  *faulty
	log    bytes.Buffer
	stop   context.CancelFunc
	ended  chan error
}

// keep runs a Keeper of n lanes in a bubble, whose clock moves only when everybody waits.
func keep(t *testing.T, n int, test func(*bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, lanes: make(lanes, n), ended: make(chan error, 1)}
		b.pool = memstore.NewPool(memstore.Config{Min: 1, Max: 9, Lease: 60000, Now: now})
		b.store = &faulty{Store: &memstore.Client{Pool: b.pool}}
		requests := make([]workerid.Request, n)
		for i := range requests {
			requests[i] = workerid.Request{Min: 1, Max: 9}
		}
		b.keeper = workerid.NewKeeper(workerid.Config{
			Store: b.store, Lanes: b.lanes, Requests: requests, Now: now, RunAhead: time.Second, Heartbeat: 5 * time.Second,
			CheckTime: generator.Katsubushi().CheckTime,
			Log:       slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{ReplaceAttr: noTime})),
		})
		ctx, stop := context.WithCancel(t.Context())
		b.stop = stop
		go func() { b.ended <- b.keeper.Run(ctx) }()
		synctest.Wait()
		test(b)
		stop()
		<-b.ended
	})
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (b *bed) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bed) is(states ...workerid.State) {
	b.Helper()
	for i, s := range b.keeper.Status() {
		if s.State != states[i] {
			b.Fatalf("lane %d is %v (%s), not %v", i, s.State, s.Reason, states[i])
		}
		if err := b.lanes.take(i); (err == nil) != s.State.Issues() {
			b.Errorf("lane %d is %v, and its generator says %v", i, s.State, err)
		}
	}
}

func TestKeeperServes(t *testing.T) {
	keep(t, 3, func(b *bed) {
		select {
		case <-b.keeper.Serving():
		default:
			b.Fatal("not serving at once")
		}
		seen := map[uint64]bool{}
		for range 100 { // ten minutes: many windows
			b.pass(6 * time.Second)
			b.is(workerid.Serving, workerid.Serving, workerid.Serving)
		}
		for _, s := range b.keeper.Status() {
			if seen[s.Worker] || !s.Held || s.Left < 54*time.Second || s.Left > time.Minute || s.For != 10*time.Minute {
				b.Errorf("%+v", s)
			}
			seen[s.Worker] = true
		}
		b.stop()
		if err := <-b.ended; err != nil {
			b.Error(err)
		}
		b.ended <- nil
		b.is(workerid.Sealed, workerid.Sealed, workerid.Sealed)
		// Everything was given back: somebody else can use it at once.
		for range 3 {
			g, err := b.pool.Acquire(workerid.Request{Owner: "x", Min: 1, Max: 3}, "t")
			if err != nil || g.Lo > now()+1000 {
				b.Errorf("%+v, %v", g, err)
			}
		}
	})
}

func TestKeeperOutage(t *testing.T) {
	for what, begin := range map[string]func(*faulty){
		"errors":  func(f *faulty) { f.fail(errors.New("connection refused")) },
		"silence": func(f *faulty) { f.hang.Store(true) },
	} {
		t.Run(what, func(t *testing.T) {
			keep(t, 1, func(b *bed) {
				b.pass(30 * time.Second)
				begin(b.store)
				for range 53 {
					b.pass(time.Second)
					if s := b.keeper.Status()[0]; !s.State.Issues() {
						b.Fatalf("%+v", s)
					}
				}
				b.pass(10 * time.Second)
				b.is(workerid.Exhausted)
				b.pass(time.Hour)
				b.is(workerid.Exhausted)
				b.store.err.Store(nil)
				b.store.hang.Store(false)
				b.pass(8 * time.Second)
				b.is(workerid.Serving)
			})
		})
	}
}

func TestKeeperAcquiresOnceTheStoreIsBack(t *testing.T) {
	keep(t, 1, func(b *bed) {
		b.store.fail(workerid.ErrLost)
		b.pass(20 * time.Second)
		b.store.fail(errors.New("connection refused"))
		b.pass(2 * time.Minute)
		b.is(workerid.Acquiring)
		b.store.err.Store(nil)
		b.pass(10 * time.Second)
		b.is(workerid.Serving)
	})
}

// A lane without a worker id may get that of another one whose lease ended: to the store they are
// two, though of one process.
func TestKeeperLanesAreStrangers(t *testing.T) {
	keep(t, 10, func(b *bed) { // and nine worker ids
		b.store.fail(errNoExtension)
		b.pass(70 * time.Second)
		b.store.err.Store(nil)
		b.pass(10 * time.Second)
		var workers []uint64
		for _, s := range b.keeper.Status() {
			if s.Held {
				workers = append(workers, s.Worker)
			}
		}
		slices.Sort(workers)
		if !slices.Equal(workers, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			b.Errorf("the lanes have worker ids %d", workers)
		}
	})
}

func TestKeeperStopsWithoutAStore(t *testing.T) {
	keep(t, 1, func(b *bed) {
		b.store.fail(errors.New("connection refused"))
		b.stop()
		if err := <-b.ended; err == nil || !strings.Contains(err.Error(), "connection refused") {
			b.Error(err)
		}
		b.is(workerid.Sealed)
		b.ended <- nil
	})
	keep(t, 1, func(b *bed) {
		b.pass(4 * time.Second)
		b.store.hang.Store(true)
		begin := time.Now()
		b.stop()
		if err := <-b.ended; err == nil || time.Since(begin) > 2*time.Second {
			b.Errorf("%v after %v", err, time.Since(begin))
		}
		b.is(workerid.Sealed)
		b.ended <- nil
	})
}

// TestKeeperGoesOnBesideADeafStore: the lane is known to be degraded, and then exhausted, and the Keeper stops.
func TestKeeperGoesOnBesideADeafStore(t *testing.T) {
	keep(t, 1, func(b *bed) {
		hears := make(chan struct{})
		b.store.deaf.Store(&hears)
		b.pass(11 * time.Second)
		if s := b.keeper.Status()[0]; s.State != workerid.Degraded || !strings.Contains(s.Reason, "no answer") {
			t.Errorf("after two heartbeats: %+v", s)
		}
		b.pass(time.Minute)
		if s := b.keeper.Status()[0]; s.State != workerid.Exhausted {
			t.Errorf("after the lease: %+v", s)
		}
		b.stop()
		b.pass(2*time.Second - 1)
		select {
		case err := <-b.ended:
			t.Errorf("stopped before the grace was over: %v", err)
		default:
		}
		b.pass(1)
		if err := <-b.ended; err == nil || !strings.Contains(err.Error(), "did not answer") {
			t.Errorf("stopped with %v", err)
		}
		b.ended <- nil
		close(hears)
		b.pass(time.Second)
		if s := b.keeper.Status()[0]; s.State != workerid.Sealed || b.store.released.Load() != 0 {
			t.Errorf("in the end: %+v, %d releases though Run has returned", s, b.store.released.Load())
		}
	})
}

// One line for every change, and none for an error that goes on.
func TestKeeperLog(t *testing.T) {
	keep(t, 1, func(b *bed) {
		b.pass(20 * time.Second)
		b.store.fail(errors.New("connection refused"))
		b.pass(2 * time.Minute)
		b.store.err.Store(nil)
		b.pass(10 * time.Second)
		b.stop()
		<-b.ended
		b.ended <- nil
		want := `level=INFO msg=lease lane=0 state=serving was=acquiring worker_id=1
level=WARN msg=lease lane=0 state=degraded was=serving worker_id=1 reason="connection refused"
level=WARN msg=lease lane=0 state=exhausted was=degraded worker_id=1 reason="connection refused"
level=WARN msg=lease lane=0 state=serving was=exhausted worker_id=1
level=INFO msg=lease lane=0 state=sealed was=serving worker_id=1
`
		if got := b.log.String(); got != want {
			b.Errorf("log:\n%s", got)
		}
	})
}

// Why a lane was not well is of no interest any more when it stops; that it could not be given back
// is.
func TestKeeperLogsStoppingWithoutOldReasons(t *testing.T) {
	for _, c := range []struct {
		pass time.Duration // after the store fails
		back bool          // before the stop
		want string
	}{
		{20 * time.Second, true, "level=INFO msg=lease lane=0 state=sealed was=degraded worker_id=1\n"},
		{2 * time.Minute, true, "level=INFO msg=lease lane=0 state=sealed was=exhausted worker_id=1\n"},
		{20 * time.Second, false, "level=INFO msg=lease lane=0 state=sealed was=degraded worker_id=1\n" +
			"level=WARN msg=lease lane=0 state=sealed worker_id=1 reason=\"not released: connection refused\"\n"},
	} {
		keep(t, 1, func(b *bed) {
			b.store.fail(errors.New("connection refused"))
			b.pass(c.pass)
			b.log.Reset()
			if c.back {
				b.store.err.Store(nil)
			}
			b.stop()
			<-b.ended
			b.ended <- nil
			if got := b.log.String(); got != c.want {
				b.Errorf("log:\n%s\nnot\n%s", got, c.want)
			}
		})
	}
}

// To wait for the clock is nothing to warn of, unless it takes long.
func TestKeeperLogsAShortWaitAsInformation(t *testing.T) {
	for ahead, want := range map[int64]string{
		5500: "level=INFO msg=lease lane=0 state=waiting was=acquiring worker_id=2 reason=\"the clock has yet to reach " +
			"the window: ids in ",
		30000: "level=WARN msg=lease lane=0 state=waiting was=acquiring worker_id=2 reason=\"the clock has yet to reach " +
			"the window: ids in ",
	} {
		keep(t, 1, func(b *bed) {
			b.store.fail(workerid.ErrCloned)
			for b.keeper.Status()[0].State != workerid.Acquiring {
				b.pass(time.Millisecond)
			}
			for range 8 { // all that are left were used, by a clock that is ahead of ours
				g, err := b.pool.Acquire(workerid.Request{Owner: "x", Min: 1, Max: 9}, "t")
				if err == nil {
					err = b.pool.Release(g, now()+ahead, []string{"t"})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.store.err.Store(nil)
			for b.keeper.Status()[0].State == workerid.Acquiring {
				b.pass(time.Millisecond)
			}
			if got := b.log.String(); !strings.Contains(got, want) {
				b.Errorf("log:\n%s\nwithout %s", got, want)
			}
		})
	}
}

// A watched error is that of a store whose pool every newcomer watches for this long.
type watched time.Duration

func (w watched) Error() string             { return fmt.Sprintf("watched for %v", time.Duration(w)) }
func (w watched) RetryAfter() time.Duration { return time.Duration(w) }
func (watched) Unwrap() error               { return workerid.ErrNoneYet }

// To watch a pool is part of every start, and nothing to warn of. To wait for a lease is.
func TestKeeperLogsAWatchAsInformation(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		5500 * time.Millisecond: "level=INFO msg=lease lane=0 state=acquiring reason=\"watched for 5.5s\"\n",
		65 * time.Second:        "level=WARN msg=lease lane=0 state=acquiring reason=\"watched for 1m5s\"\n",
	} {
		keep(t, 1, func(b *bed) {
			b.store.fail(workerid.ErrCloned)
			for b.keeper.Status()[0].State != workerid.Acquiring {
				b.pass(time.Millisecond)
			}
			b.store.fail(watched(wait))
			b.pass(10 * time.Second)
			if got := b.log.String(); !strings.HasSuffix(got, want) {
				b.Errorf("log:\n%s\nwithout %s", got, want)
			}
		})
	}
}

func TestKeeperCounts(t *testing.T) {
	keep(t, 2, func(b *bed) {
		b.pass(27 * time.Second) // five heartbeats
		b.store.fail(errors.New("connection refused"))
		b.pass(100 * time.Millisecond)
		before := b.keeper.Counts()
		want := workerid.Counts{Calls: 7}
		want.Acquisitions[workerid.OK], want.Extensions[workerid.OK] = 2, 10
		if ago := time.Since(before.LastExtended); ago < 0 || ago > 6*time.Second {
			b.Errorf("last extended %v ago", ago)
		}
		if want.LastExtended = before.LastExtended; before != want {
			b.Errorf("%+v, not %+v", before, want)
		}
		b.pass(5 * time.Second) // one heartbeat, and some that come sooner since it failed
		b.store.err.Store(nil)
		b.store.hang.Store(true)
		b.pass(5 * time.Second)
		b.store.hang.Store(false)
		b.store.fail(workerid.ErrLost)
		b.pass(8 * time.Second)
		b.store.fail(workerid.ErrNoID)
		b.pass(10 * time.Second)
		after := b.keeper.Counts()
		for what, n := range map[string]uint64{
			"failed": after.Extensions[workerid.Failed], "unanswered": after.Extensions[workerid.Unanswered],
			"lost":      after.Extensions[workerid.Lost],
			"none free": after.Acquisitions[workerid.NoneFree],
		} {
			if n == 0 {
				b.Errorf("no call %s: %+v", what, after)
			}
		}
		if n := after.Extensions[workerid.Unanswered] / 2; after.Took != time.Duration(n)*time.Second {
			b.Errorf("%d calls of two lanes were waited for for a second each, all together %v", n, after.Took)
		}
		if after.LastExtended != before.LastExtended {
			b.Errorf("last extended %v, and before the failures %v", after.LastExtended, before.LastExtended)
		}
	})
}

func TestOwnersDiffer(t *testing.T) {
	if a, b := workerid.NewOwner(), workerid.NewOwner(); a == b || strings.ContainsAny(a, " \n") {
		t.Error(a, b)
	}
}

func ExampleKeeper() {
	pool := memstore.NewPool(memstore.Config{Min: 1, Max: 9, Lease: 60000, Now: now})
	lanes := make(lanes, 1) // publishes generators; an issuer's
	k := workerid.NewKeeper(workerid.Config{
		Store:     &memstore.Client{Pool: pool},
		Lanes:     lanes,
		Requests:  []workerid.Request{{Min: 5, Max: 9}},
		Now:       now,
		RunAhead:  time.Second,
		Heartbeat: 5 * time.Second,
		Log:       slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	<-k.Serving()
	s := k.Status()[0]
	fmt.Println(s.State, s.Worker, lanes.take(0))
	stop()
	fmt.Println(<-ended, k.Status()[0].State, lanes.take(0))
	// Output:
	// serving 5 <nil>
	// <nil> sealed generator: sealed
}
