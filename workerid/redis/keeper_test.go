package redis

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// generators stand for those of a daemon's lanes: they know their windows and have issued up to the
// present.
type generators struct {
	t  *testing.T
	mu sync.Mutex
	of []generatorOf
}

type generatorOf struct {
	worker uint64
	lo, hi int64
}

func (g *generators) Publish(lane int, worker uint64, lo, hi int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of[lane] = generatorOf{worker, lo, hi}
	return nil
}

func (g *generators) Extend(lane int, lo, hi int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lo != g.of[lane].hi+1 {
		g.t.Errorf("lane %d: %+v extended from %d", lane, g.of[lane], lo)
	}
	g.of[lane].hi = hi
	return nil
}

func (g *generators) Seal(lane int) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return min(time.Now().UnixMilli(), g.of[lane].hi)
}

func (g *generators) workers() (w [2]uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, of := range g.of {
		w[i] = of.worker
	}
	return w
}

// A real keeper over a real Redis, on real clocks: nothing that is over within a lease keeps it
// from issuing.
func TestKeeperNeverStopsIssuing(t *testing.T) {
	w := newWorld(t)
	w.real, w.config.Now, w.config.Max = true, nil, 5
	w.init(New)
	lanes := &generators{t: t, of: make([]generatorOf, 2)}
	one := workerid.Request{Min: 1, Max: 5}
	k := workerid.NewKeeper(workerid.Config{
		Store: w.daemon().Store, Lanes: lanes, Requests: []workerid.Request{one, one}, Now: w.now, RunAhead: time.Second,
		Heartbeat: 100 * time.Millisecond, Timeout: 500 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	all := func(state workerid.State) bool {
		for _, s := range k.Status() {
			if s.State != state {
				return false
			}
		}
		return true
	}
	redistest.Until(t, "both lanes serve", func() bool { return all(workerid.Serving) })
	until := func(what string, ok func() bool) {
		t.Helper()
		redistest.Until(t, what, func() bool {
			for i, s := range k.Status() {
				if !s.State.Issues() {
					t.Fatalf("lane %d does not issue: %+v", i, s)
				}
			}
			return ok()
		})
	}
	history := func() string { return w.server.Do("HGET", w.key("meta"), "hist").(string) }

	before := lanes.workers()
	if _, err := w.pool().Release(ctx, before[0]); err != nil {
		t.Fatal(err)
	}
	until("the lane has another worker id", func() bool {
		return lanes.workers()[0] != before[0] && all(workerid.Serving)
	})
	w.server.Pause()
	until("the stall is noticed", func() bool { return all(workerid.Degraded) })
	w.server.Resume()
	until("it is over", func() bool { return all(workerid.Serving) })
	old := history()
	w.server.Do("FLUSHALL")
	until("the pool is made again", func() bool {
		now, _ := w.server.Do("HGET", w.key("meta"), "hist").(string)
		return now != "" && now != old && all(workerid.Serving)
	})
	w.server.Kill()
	until("the crash is noticed", func() bool { return all(workerid.Degraded) })
	w.server.Launch()
	until("it is over", func() bool { return all(workerid.Serving) })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	l, err := w.pool().List(context.Background())
	if err != nil || len(l) != 5 {
		t.Fatalf("%v, %v", l, err)
	}
	for _, l := range l {
		if l.Owner != "" {
			t.Errorf("%+v was not given back", l)
		}
	}
}
