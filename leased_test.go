package katsubushi_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/etcd"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/zookeeper"
)

// A server may be made to stand still.
type server interface {
	Pause()
	Resume()
}

// pools are the stores of worker ids, with leases as short as they may be.
var pools = map[string]func(t *testing.T) (server, workerid.Provider){
	"redis": func(t *testing.T) (server, workerid.Provider) {
		s := redistest.Start(t)
		return s, redis.Config{URL: s.URL(), Terms: short}.Provider()
	},
	"etcd": func(t *testing.T) (server, workerid.Provider) {
		s := etcdtest.Start(t)
		return s, etcd.Config{Settings: cas.Settings{URL: "etcd://" + s.Addr(), Terms: short}}.Provider()
	},
	"zookeeper": func(t *testing.T) (server, workerid.Provider) {
		s := zktest.Start(t)
		return s, zookeeper.Config{Settings: cas.Settings{URL: "zookeeper://" + s.Addr(), Terms: short}}.Provider()
	},
}

var short = workerid.Terms{Lease: 8 * time.Second, MaxSkew: time.Second / 2}

// TestLeased: programs share a pool of each kind, and are told apart by their worker ids; who closes gives back; who
// has another layout is refused; while the store stands still the ids go on for a lease, and again when it is back.
func TestLeased(t *testing.T) {
	for name, start := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := start(t)
			layout := generator.Katsubushi()
			admin, err := pool.Lease(workerid.Terms{
				Layout: layout.Fingerprint(), Min: 1, Max: layout.MaxWorker(),
			}).OpenAdmin()
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			if _, err := admin.Init(t.Context(), workerid.InitNew); err != nil {
				t.Fatal(err)
			}
			a, b := open(t, katsubushi.Config{Store: pool}), open(t, katsubushi.Config{Store: pool, Lanes: 2})
			take(t, a)
			workers := append(a.Status().Workers(), b.Status().Workers()...)
			childprocess.Until(t, "both lanes", func() bool {
				workers = append(a.Status().Workers(), b.Status().Workers()...)
				return len(workers) == 3
			})
			if slices.Sort(workers); len(slices.Compact(workers)) != 3 {
				t.Errorf("worker ids %d", workers)
			}
			_, err = katsubushi.Open(t.Context(), katsubushi.Config{Store: pool, Layout: generator.Twitter()})
			if !errors.Is(err, katsubushi.ErrRefused) || !errors.Is(err, workerid.ErrForeignPool) {
				t.Errorf("a layout of another pool: %v", err)
			}
			b.Close()
			leases, err := admin.List(t.Context())
			// What was given back has no owner, and is in use until the time of its last id has passed.
			held := slices.DeleteFunc(leases, func(l workerid.Lease) bool { return l.Owner == "" })
			if err != nil || len(held) != 1 || held[0].Worker != a.Status().Workers()[0] {
				t.Errorf("held after one of two was closed: %v, %v", held, err)
			}
			away(t, store, a)
		})
	}
}

// away lets the store of ids stand still for longer than a lease.
func away(t *testing.T, store server, ids *katsubushi.IDs) {
	t.Helper()
	store.Pause()
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := ids.ID(ctx)
		return err
	}
	if err := ask(time.Minute); err != nil {
		t.Errorf("the store has just gone: %v", err)
	}
	var err error
	childprocess.Until(t, "the window ends", func() bool {
		err = ask(20 * time.Millisecond)
		return err != nil
	})
	if !errors.Is(err, katsubushi.ErrUnready) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a window: %v", err)
	}
	if ids.Err() == nil || ids.Status().Err == nil {
		t.Error("the status says that all is well")
	}
	store.Resume()
	if err := ask(time.Minute); err != nil {
		t.Errorf("the store is back: %v", err)
	}
}
