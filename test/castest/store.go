package castest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/storetest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

const start = 1732060800000

// Store runs storetest over a driver, with this many random histories of each kind: some hundred calls
// each. The clocks are the test's, so that no watch takes its time.
func Store(t *testing.T, fresh func(t testing.TB) Place, histories int) {
	storetest.Run(t, func(t testing.TB, n int) storetest.Pool {
		var now, boot atomic.Int64 // stores look at them when they like
		now.Store(start)
		boot.Store(int64(time.Hour))
		terms := workerid.Terms{
			Layout: "test", Min: 3, Max: 3 + uint64(n) - 1, Lease: 20 * time.Second, Heartbeat: time.Second,
			MaxSkew: 2 * time.Second, Now: now.Load,
		}
		p := fresh(t)
		p.open(t).makePool(pool.Meta{
			Epoch: "0", Floor: start - 3600_000, Fingerprint: "test", Lease: terms.Lease.Milliseconds(), Epsilon: 5000,
			Min: terms.Min, Max: terms.Max,
		})
		return storetest.Pool{
			Min: terms.Min, Max: terms.Max, Lease: terms.Lease.Milliseconds(), Now: terms.Now, Histories: histories,
			Advance: func(ms int64) { now.Add(ms) },
			Refusal: cas.ErrSilent, // other daemons' watches take their time
			Open: func(t testing.TB) workerid.Store {
				s, err := cas.Open(cas.Config{
					Terms: terms, Driver: p(t), Kind: "test", Where: "nowhere", Boot: boot.Load, Timeout: patience,
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return patient{s, func(d time.Duration) { boot.Add(int64(d)) }}
			},
			Crash: func(s workerid.Store) { s.(patient).Close() },
		}
	})
}

// makePool writes what `lease init` does.
func (s *side) makePool(m pool.Meta) {
	s.t.Helper()
	c := pool.Change{Fresh: true, SetMeta: m.String(), If: map[uint64]string{}, Set: map[uint64]string{}}
	for w := m.Min; w <= m.Max; w++ {
		c.If[w], c.Set[w] = "", pool.Record{}.String()
	}
	if a := s.commit(c); !a.Done {
		s.t.Fatalf("there is something already: %+v", a)
	}
}

// A patient store waits as long as the store says: on the clock that nobody sets, not on that of
// dates.
type patient struct {
	*cas.Store
	pass func(time.Duration)
}

func (p patient) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	for {
		g, err := p.Store.Acquire(ctx, want)
		var watching cas.Watching
		if !errors.As(err, &watching) {
			return g, err
		}
		p.pass(watching.RetryAfter())
	}
}

func (p patient) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	for {
		results, err := p.Store.Extend(ctx, held)
		var watching cas.Watching
		for _, r := range results {
			if errors.As(r.Err, &watching) {
				break
			}
		}
		if watching.Left == 0 {
			return results, err
		}
		p.pass(watching.RetryAfter())
	}
}
