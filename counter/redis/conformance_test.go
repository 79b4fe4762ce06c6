package redis

import (
	"context"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

func TestConformance(t *testing.T) {
	s := redistest.Start(t, durable...)
	c := func(t *testing.T) Config {
		return Config{URL: "redis://" + s.Addr() + "/0?ns=" + redistest.Namespace(t), Operator: true, anyMax: true}
	}
	t.Run("line", func(t *testing.T) {
		countertest.Run(t, func(t *testing.T) countertest.Open {
			c := c(t)
			return func(t *testing.T) (counter.Store, counter.Admin) { return open(t, c), open(t, c) }
		})
	})
	t.Run("refuse", func(t *testing.T) {
		countertest.Run(t, func(t *testing.T) countertest.Open {
			c := c(t)
			return func(t *testing.T) (counter.Store, counter.Admin) {
				return refusing{t, open(t, c)}, refusing{t, open(t, c)}
			}
		})
	})
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A refusing store adds on-loss=refuse to what is defined, and wants it of every record.
type refusing struct {
	t *testing.T
	*Store
}

func (s refusing) plain(r counter.Record) counter.Record {
	if r.Name != "" && !r.RefuseLoss {
		s.t.Errorf("%+v", r)
	}
	r.RefuseLoss = false
	return r
}

func (s refusing) all(list []counter.Record) []counter.Record {
	for i := range list {
		list[i] = s.plain(list[i])
	}
	return list
}

func (s refusing) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	d.RefuseLoss = true
	r, err := s.Store.Define(ctx, d)
	return s.plain(r), err
}

func (s refusing) Changes(ctx context.Context, since string) (string, []counter.Record, error) {
	now, list, err := s.Store.Changes(ctx, since)
	return now, s.all(list), err
}

func (s refusing) List(ctx context.Context) ([]counter.Record, error) {
	list, err := s.Store.List(ctx)
	return s.all(list), err
}

func (s refusing) Show(ctx context.Context, name string) (counter.Record, error) {
	r, err := s.Store.Show(ctx, name)
	return s.plain(r), err
}

func (s refusing) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	r, err := s.Store.Raise(ctx, name, atLeast)
	return s.plain(r), err
}

func (s refusing) Retire(ctx context.Context, name string) (counter.Record, error) {
	r, err := s.Store.Retire(ctx, name)
	return s.plain(r), err
}
