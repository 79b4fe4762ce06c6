package workerid_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/memstore"
	"github.com/katsubushi/katsubushi/v3/test/steps"
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
	keeper *workerid.Keeper
	lanes  lanes
	pool   *memstore.Pool
	store  *faulty
	log    journal
	stop   context.CancelFunc
	ended  chan error
	counts workerid.Counts // as they were last looked at
}

// A journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// since returns what was logged since the last time.
func (j *journal) since() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

// keep runs a Keeper of n lanes in a bubble, whose clock moves only when everybody waits.
func keep(t *testing.T, n int) *bed {
	b := &bed{lanes: make(lanes, n), ended: make(chan error, 1)}
	b.pool = memstore.NewPool(memstore.Config{Min: 1, Max: 9, Lease: 60000, Now: now})
	b.store = &faulty{Store: &memstore.Client{Pool: b.pool}}
	b.keeper = workerid.NewKeeper(workerid.Config{
		Store: b.store, Lanes: b.lanes, Requests: slices.Repeat([]workerid.Request{{Min: 1, Max: 9}}, n), Now: now,
		RunAhead: time.Second, Heartbeat: 5 * time.Second, CheckTime: generator.Katsubushi().CheckTime,
		Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{ReplaceAttr: noTime})),
	})
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.ended <- b.keeper.Run(ctx) }()
	return b
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// status says of each lane whether its generator issues, too.
func (b *bed) status() string {
	var text strings.Builder
	for i, s := range b.keeper.Status() {
		err := b.lanes.take(i)
		fmt.Fprintf(&text, "lane %d: %v, held %v, issues %v\n", i, s.State, s.Held, err == nil)
		if (err == nil) != s.State.Issues() {
			fmt.Fprintf(&text, "which is wrong: %v\n", err)
		}
	}
	return text.String()
}

// workers are the worker ids of all lanes that have one, in their order.
func (b *bed) workers() (all []uint64) {
	for _, s := range b.keeper.Status() {
		if s.Held {
			all = append(all, s.Worker)
		}
	}
	slices.Sort(all)
	return all
}

// counted says which calls have ended since the last time, and how long each took on average that was not answered.
func (b *bed) counted() string {
	var text strings.Builder
	was, now := b.counts, b.keeper.Counts()
	for o := range workerid.NumOutcomes {
		if now.Acquisitions[o] > was.Acquisitions[o] {
			fmt.Fprintf(&text, "acquired: %v\n", o)
		}
		if now.Extensions[o] > was.Extensions[o] {
			fmt.Fprintf(&text, "extended: %v\n", o)
		}
	}
	if n := now.Extensions[workerid.Unanswered] / uint64(len(b.lanes)); n > 0 {
		fmt.Fprintf(&text, "unanswered for %v\n", now.Took/time.Duration(n))
	}
	if ago := time.Since(now.LastExtended); now.LastExtended != was.LastExtended && ago < 6*time.Second {
		text.WriteString("extended just now\n")
	}
	b.counts = now
	return text.String()
}

// end waits until the Keeper has stopped.
func (b *bed) end() (time.Duration, error) {
	began := time.Now()
	err := <-b.ended
	b.ended <- nil
	return time.Since(began), err
}

// used has other daemons use all worker ids that are left, by a clock that is ahead.
func (b *bed) used(ahead int64) error {
	other := &memstore.Client{Pool: b.pool}
	for range 8 {
		g, err := other.Acquire(context.Background(), workerid.Request{Owner: "x", Min: 1, Max: 9})
		if err == nil {
			err = other.Release(context.Background(), g, now()+ahead)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A watched error is that of a store whose pool every newcomer watches for this long.
type watched time.Duration

func (w watched) Error() string             { return fmt.Sprintf("watched for %v", time.Duration(w)) }
func (w watched) RetryAfter() time.Duration { return time.Duration(w) }
func (watched) Unwrap() error               { return workerid.ErrNoneYet }

// spans depend on when heartbeats come, which is random.
var spans = regexp.MustCompile(`(from the store for|ids in) [0-9.]+s`)

// TestKeeper: testdata/keeper.txt has what a Keeper does while its store fails. Beside a step stands what it logs.
func TestKeeper(t *testing.T) {
	steps.Run(t, "testdata/keeper.txt", func(t *testing.T) steps.Calls {
		var b *bed
		t.Cleanup(func() {
			b.stop()
			b.end()
		})
		hears := make(chan struct{})
		return steps.Calls{
			"":      func() string { return spans.ReplaceAllString(b.log.since(), "$1 ...") },
			"lanes": func(n int) { b = keep(t, n) },
			"pass":  time.Sleep,
			"serving": func() bool {
				select {
				case <-b.keeper.Serving():
					return true
				default:
					return false
				}
			},
			"status":  b0(&b, (*bed).status),
			"workers": b0(&b, (*bed).workers),
			"fail": func(why string) {
				b.store.fail(cmp.Or(map[string]error{"lost": workerid.ErrLost, "cloned": workerid.ErrCloned,
					"no id": workerid.ErrNoID}[why], errors.New(why)))
			},
			"fail-extensions": func() { b.store.fail(errNoExtension) },
			"watch":           func(d time.Duration) { b.store.fail(watched(d)) },
			"hang":            func() { b.store.hang.Store(true) },
			"be-deaf":         func() { b.store.deaf.Store(&hears) },
			"hear":            func() { close(hears) },
			"work": func() {
				b.store.err.Store(nil)
				b.store.hang.Store(false)
			},
			"others-used": func(ahead int64) error { return b.used(ahead) },
			"free": func() (int64, error) { // how far ahead the next window begins
				other := &memstore.Client{Pool: b.pool}
				g, err := other.Acquire(context.Background(), workerid.Request{Owner: "x", Min: 1, Max: 3})
				return g.Lo - now(), err
			},
			"counted": b0(&b, (*bed).counted),
			"calls": func() string {
				c := b.keeper.Counts()
				return fmt.Sprint(c.Calls, ", acquired ", c.Acquisitions[workerid.OK], ", extended ", c.Extensions[workerid.OK])
			},
			"releases": func() int64 { return b.store.released.Load() },
			"stop":     func() { b.stop() },
			"end":      func() (time.Duration, error) { return b.end() },
		}
	})
}

// b0 calls a method of the bed that there is by then.
func b0[R any](b **bed, f func(*bed) R) func() R { return func() R { return f(*b) } }

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
