package katsubushi_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/twin"
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

// makePool makes a pool, as `katsubushi lease init` does.
func makePool(t *testing.T, pool workerid.Provider) (terms workerid.Terms) {
	t.Helper()
	layout := generator.Katsubushi()
	terms = workerid.Terms{Layout: layout.Fingerprint(), Min: 1, Max: layout.MaxWorker()}
	admin, err := pool.Lease(terms).OpenAdmin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	patiently(t, "the pool answers", func() error {
		_, err := admin.Init(t.Context(), workerid.InitNew)
		return err
	})
	return terms
}

// patiently asks again as long as a store is too late, which it is on a busy machine.
func patiently(t *testing.T, what string, ask func() error) {
	t.Helper()
	childprocess.Until(t, what, func() bool {
		err := ask()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, workerid.ErrSkew) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestLeased: programs share a pool of each kind, and are told apart by their worker ids; who closes gives back; who
// has another layout is refused; while the store stands still the ids go on for a lease, and again when it is back.
func TestLeased(t *testing.T) {
	for name, start := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := start(t)
			terms := makePool(t, pool)
			admin, err := pool.Lease(terms).OpenAdmin()
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			var out childprocess.Log
			a := open(t, katsubushi.Config{Store: pool, Log: slog.New(slog.NewTextHandler(&out, nil))})
			b := open(t, katsubushi.Config{Store: pool, Lanes: 2})
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
			var leases []workerid.Lease
			patiently(t, "a list of the leases", func() error {
				leases, err = admin.List(t.Context())
				return err
			})
			// What was given back has no owner, and is in use until the time of its last id has passed. A store that is
			// too late, on a busy machine, lets leases end.
			held := slices.DeleteFunc(leases, func(l workerid.Lease) bool { return l.Owner == "" || !l.Using })
			if len(held) != 1 || held[0].Worker != a.Status().Workers()[0] {
				t.Errorf("held after one of two was closed: %v", held)
			}
			away(t, store, a, &out)
		})
	}
}

// away lets the store of ids stand still for longer than a lease.
func away(t *testing.T, store server, ids *katsubushi.IDs, log *childprocess.Log) {
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
		err = ask(20 * time.Millisecond) // on a busy machine that is over before it asks, which tells nothing
		return errors.Is(err, katsubushi.ErrUnready)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a window: %v", err)
	}
	if ids.Err() == nil || ids.Status().Err == nil {
		t.Error("the status says that all is well")
	}
	logged := func(line string) {
		t.Helper()
		childprocess.Until(t, line+" in the log", func() bool { return strings.Contains(log.String(), `msg="`+line+`"`) })
	}
	logged("no ids are issued")
	store.Resume()
	if err := ask(time.Minute); err != nil {
		t.Errorf("the store is back: %v", err)
	}
	logged("ids are issued again")
	if s := log.String(); strings.Contains(s, "port") {
		t.Errorf("a program has no port: %s", s)
	}
}

// TestCopiedProgram: of a program and its copy, which goes on from a snapshot of its memory, whoever asks the store
// first keeps the worker id and gets its next window alone. The other one learns it at its next heartbeat; a program
// goes on with another worker id.
func TestCopiedProgram(t *testing.T) {
	for name, start := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool := start(t)
			makePool(t, pool)
			var out childprocess.Log
			original := twin.New(pool)
			ids := open(t, katsubushi.Config{
				Store: original.Provider(), Log: slog.New(slog.NewTextHandler(&out, nil)),
			})
			before := ids.Status().Lanes[0]
			copyFirst := extended(t, original, true)
			childprocess.Until(t, "the program has another worker id", func() bool {
				now := ids.Status().Workers()
				return len(now) == 1 && now[0] != before.Worker
			})
			if copyFirst.Err != nil || copyFirst.Grant.Worker != before.Worker || copyFirst.Grant.Lo <= before.Hi {
				t.Errorf("the copy of %+v has %+v", before, copyFirst)
			}
			take(t, ids)
			now := ids.Status().Workers()
			if last := extended(t, original, false); !errors.Is(last.Err, workerid.ErrCloned) {
				t.Errorf("the program asked first, and the copy was told %+v", last)
			}
			take(t, ids)
			if !slices.Equal(ids.Status().Workers(), now) {
				t.Errorf("the program had %d, and after a copy that asked too late %d", now, ids.Status().Workers())
			}
			log := out.String()
			late := strings.Count(log, "state=serving was=degraded") // the store's answers, on a busy machine
			served := strings.Count(log, "state=serving") - late
			if strings.Count(log, "a copy of this process") != 1 || served != 2 {
				t.Errorf("the log does not say so once, and that it had two worker ids: %s", log)
			}
		})
	}
}

// extended is what a copy gets that asks the store for more, before the program does or after it.
func extended(t *testing.T, of *twin.Original, first bool) (got workerid.Result) {
	t.Helper()
	var other *twin.Copy
	ask := func(c *twin.Copy) (answered bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		results, err := c.Extend(ctx, c.Held)
		if err != nil {
			t.Log(err)
			return false
		}
		got = results[0]
		return !errors.Is(got.Err, workerid.ErrNoneYet) // not any more while it watches
	}
	childprocess.Until(t, "a copy", func() bool {
		err := of.Copy(func(c *twin.Copy) error {
			other = c
			if first {
				childprocess.Until(t, "the copy is answered", func() bool { return ask(c) })
			}
			return nil
		})
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	t.Cleanup(func() { other.Close() })
	if !first {
		calls := of.Extended()
		childprocess.Until(t, "the program has asked", func() bool { return of.Extended() > calls })
		childprocess.Until(t, "the copy is answered", func() bool { return ask(other) })
	}
	return got
}

// TestIdle: a program that asks for nothing has two goroutines, which wake up for the clock and for the lease only.
func TestIdle(t *testing.T) {
	pool := redis.Config{URL: redistest.Start(t).URL(), Terms: workerid.Terms{MaxSkew: time.Second / 2}}.Provider()
	terms := makePool(t, pool)
	before := runtime.NumGoroutine()
	ids := open(t, katsubushi.Config{Store: pool})
	if _, err := ids.ID(t.Context()); err != nil {
		t.Fatal(err)
	}
	childprocess.Until(t, "the calls of the start are over", func() bool { return runtime.NumGoroutine() <= before+4 })
	var stacks strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"workerid.(*Keeper).Run+", "clock.(*Clock).Run+"} {
		if strings.Count(stacks.String(), own) != 1 {
			t.Errorf("%s does not run once:\n%s", own, stacks.String())
		}
	}
	// Each of the two waits for a timer, a call of the store is a goroutine that wakes up the keeper when it ends, and its
	// answer wakes up the goroutine.
	aSecond := 1/clock.Interval.Seconds() + 3/pool.Lease(terms).BestHeartbeat().Seconds()
	if aSecond > 2 {
		t.Errorf("%.1f wake-ups a second", aSecond)
	}
}
