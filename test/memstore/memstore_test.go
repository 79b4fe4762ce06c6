package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/memstore"
	"github.com/katsubushi/katsubushi/v3/test/storetest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const start = 1732060800000

func TestConformance(t *testing.T) {
	storetest.Run(t, func(_ testing.TB, n int) storetest.Pool {
		now := int64(start)
		c := memstore.Config{Min: 3, Max: 3 + uint64(n) - 1, Lease: 5000, Now: func() int64 { return now }}
		pool := memstore.NewPool(c)
		return storetest.Pool{
			Min: c.Min, Max: c.Max, Lease: c.Lease, Now: c.Now,
			Advance: func(ms int64) { now += ms },
			Open:    func(testing.TB) workerid.Store { return &memstore.Client{Pool: pool} },
			Crash:   func(workerid.Store) {},
		}
	})
}

var ctx = context.Background()

// Of two copies of a process one is told, at its first heartbeat after the other's.
func TestCloneIsFound(t *testing.T) {
	now := int64(start)
	pool := memstore.NewPool(memstore.Config{Min: 1, Max: 1, Lease: 1000, Now: func() int64 { return now }})
	a := &memstore.Client{Pool: pool}
	g, err := a.Acquire(ctx, workerid.Request{Owner: "a", Min: 1, Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := copied.Of(a)
	now += 100
	if r, err := b.Extend(ctx, []workerid.Grant{g}); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	if r, _ := a.Extend(ctx, []workerid.Grant{g}); !errors.Is(r[0].Err, workerid.ErrCloned) {
		t.Errorf("the other copy got %+v", r)
	}
	if err := a.Release(ctx, g, g.Lo-1); !errors.Is(err, workerid.ErrCloned) {
		t.Errorf("and released: %v", err)
	}
}
