package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

func leasing(url string) Config {
	return Config{
		Log: slog.New(slog.DiscardHandler), Layout: generator.Katsubushi(), Lanes: 1, MaxRunAhead: time.Second,
		Store: stores.Settings{URL: url, Terms: workerid.Terms{Min: 1, Max: 3, Lease: time.Minute, AutoInit: true}},
	}
}

// Redis gets the time of the id clock, which does not follow a step of the wall clock at once. Here
// the wall clock is in another century.
func TestRedisIsToldTheIDClock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, c := range []struct {
		what string
		ids  *clock.Clock
		want error
	}{
		// the pool is made, and nobody gets anything for a lease's length
		{"the wall clock's present", clock.New(), workerid.ErrNoID},
		{"another century", &clock.Clock{}, workerid.ErrSkew},
	} {
		d := &Daemon{c: leasing(server.URL()), clock: c.ids}
		if err := d.openStore(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := d.store.Acquire(ctx, workerid.Request{Owner: "x", Min: 1, Max: 3})
		cancel()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, not %v", c.what, err, c.want)
		}
		d.store.Close()
	}
}

// The layout's ticks may be longer than what a state file normally reserves. The first window must
// hold a whole tick.
func TestTheStateFileIsToldTheTick(t *testing.T) {
	t.Parallel()
	l := generator.Katsubushi()
	l.Name, l.Unit = "minutes", 60_000
	d := &Daemon{clock: clock.New(), c: Config{
		Log: slog.New(slog.DiscardHandler), Layout: l, WorkerIDs: []uint64{1}, MaxRunAhead: time.Second,
		StateDir: t.TempDir(), AnyDisk: true,
	}}
	if err := d.openStore(); err != nil {
		t.Fatal(err)
	}
	defer d.store.Close()
	began := d.clock.Now()
	g, err := d.store.Acquire(t.Context(), workerid.Request{Owner: "x", Min: 1, Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	if g.Hi-began < l.Unit {
		t.Errorf("the window reaches only %v ahead", time.Duration(g.Hi-began)*time.Millisecond)
	}
}

// A beating store grants everything and records when it was asked for more.
type beating struct {
	mu    sync.Mutex
	beats []time.Time
}

func (*beating) Figures(func(figure.Figure)) (c workerid.Condition) { return c }

func (b *beating) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	now := time.Now().UnixMilli()
	return workerid.Grant{Worker: want.Min, Owner: want.Owner, Lo: now, Hi: now + 60_000}, nil
}

func (b *beating) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats = append(b.beats, time.Now())
	results := make([]workerid.Result, len(held))
	for i, g := range held {
		g.Lo, g.Hi = g.Hi+1, time.Now().UnixMilli()+60_000
		results[i].Grant = g
	}
	return results, nil
}

func (b *beating) Release(context.Context, workerid.Grant, int64) error { return nil }
func (b *beating) Close() error                                         { return nil }

// Windows are extended as often as the settings say.
func TestHeartbeats(t *testing.T) {
	for _, c := range []struct {
		what string
		c    func(*Config)
		want time.Duration
	}{
		{"what suits a lease", func(*Config) {}, 5 * time.Second},
		{"what suits a long lease", func(c *Config) { c.Store.Lease = 4 * time.Minute }, 20 * time.Second},
		{"-heartbeat", func(c *Config) { c.Store.Heartbeat = 3 * time.Second }, 3 * time.Second},
		{"-hold-raus", func(c *Config) { c.Store.Redis.HoldRaus = "raus" }, time.Second},
		{"a state file", func(c *Config) { c.Store.URL, c.WorkerIDs = "", []uint64{1} }, static.Heartbeat},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
				store := &beating{}
				d := &Daemon{clock: clock.New(), tenure: tenure{store: store}, c: leasing("redis://x")}
				c.c(&d.c)
				d.issuer = issuer.New(issuer.Config{Lanes: 1, RunAhead: d.c.MaxRunAhead, Layout: d.c.Layout, Now: d.clock.Now,
					Sleep: time.Sleep})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- d.newKeeper().Run(ctx) }()
				time.Sleep(40*c.want + c.want/2)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if n := len(store.beats); n < 37 || n > 44 {
					t.Fatalf("%d extensions in 40 heartbeats", n)
				}
				for i, at := range store.beats[1:] { // they vary by a tenth, so that daemons do not act in step
					if passed := at.Sub(store.beats[i]); passed < c.want*89/100 || passed > c.want*111/100 {
						t.Errorf("%v between two extensions", passed)
					}
				}
			})
		})
	}
}
