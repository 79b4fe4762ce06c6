package static_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/test/storetest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

const t0 = int64(1732060800000)

var (
	ctx         = context.Background()
	fingerprint = generator.Katsubushi().Fingerprint()
	one         = workerid.Request{Owner: "me", Min: 7, Max: 7}
)

// A world is a directory and clocks.
type world struct {
	dir    string
	disk   static.Disk
	memory static.Memory
	share  bool
	id     int64         // the id clock
	clocks static.Clocks // of the machine
	log    *strings.Builder
	stalls bool // writes wait
	waits  []func()
}

func newWorld(t testing.TB) *world {
	return &world{dir: t.TempDir(), id: t0, clocks: static.Clocks{Wall: t0, Boot: 1000, BootID: "boot-1"},
		log: new(strings.Builder)}
}

// shareOrNot runs a test for worker ids that share a mark, and for those that do not.
func shareOrNot(t *testing.T, test func(t *testing.T, share bool)) {
	for name, share := range map[string]bool{"own mark": false, "shared mark": true} {
		t.Run(name, func(t *testing.T) { test(t, share) })
	}
}

// pass moves all clocks.
func (w *world) pass(ms int64) {
	w.id += ms
	w.clocks.Wall += ms
	w.clocks.Boot += ms
}

func (w *world) config(workers ...uint64) static.Config {
	return static.Config{
		Dir: w.dir, Workers: workers, Fingerprint: fingerprint, RunAhead: time.Second, Now: func() int64 { return w.id },
		Log: slog.New(slog.NewTextHandler(w.log, nil)), Disk: w.disk, Clocks: func() static.Clocks {
			return w.clocks
		}, Machine: "machine-1", Share: w.share,
		Memory: w.memory, Issued: generator.Katsubushi().Issued, First: generator.Katsubushi().First,
		Background: w.write,
	}
}

// write carries out what a Store does in the background.
func (w *world) write(f func()) {
	if w.stalls {
		w.waits = append(w.waits, f)
	} else {
		f()
	}
}

// answer carries out what has waited.
func (w *world) answer() string {
	waited := w.waits
	w.stalls, w.waits = false, nil
	for _, f := range waited {
		f()
	}
	return fmt.Sprint(len(waited), " writes")
}

func (w *world) open(t testing.TB, workers ...uint64) *static.Store {
	t.Helper()
	s, err := static.Open(w.config(workers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustAcquire(t testing.TB, s workerid.Store, want workerid.Request) workerid.Grant {
	t.Helper()
	g, err := s.Acquire(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func extendOne(ctx context.Context, s workerid.Store, g workerid.Grant) (workerid.Grant, error) {
	r, err := s.Extend(ctx, []workerid.Grant{g})
	if err != nil {
		return g, err
	}
	if r[0].Err == nil {
		g.Hi = max(g.Hi, r[0].Grant.Hi)
	}
	return g, r[0].Err
}

// pool makes a directory of n worker ids into a pool: a daemon is a Store for whichever of them is
// free.
type pool struct {
	*world
	ids int
}

// A daemon opens the file of the worker id that it is asked for, as several daemons share a
// directory only in this test.
type daemon struct {
	*pool
	stores map[uint64]*static.Store
}

func (d *daemon) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if want.Min > want.Max {
		return workerid.Grant{}, errors.New("empty range")
	}
	for id := want.Min; id <= want.Max; id++ {
		s := d.stores[id]
		if s == nil {
			var err error
			if s, err = static.Open(d.config(id)); errors.Is(err, static.ErrInUse) {
				continue
			} else if err != nil {
				return workerid.Grant{}, err
			}
			d.stores[id] = s
		}
		if g, err := s.Acquire(ctx, want); !errors.Is(err, workerid.ErrNoID) && !errors.Is(err, static.ErrInUse) {
			return g, err
		}
	}
	return workerid.Grant{}, workerid.ErrNoID
}

func (d *daemon) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	var all []workerid.Result
	for _, g := range held {
		s := d.stores[g.Worker]
		if s == nil {
			all = append(all, workerid.Result{Err: workerid.ErrLost})
			continue
		}
		r, err := s.Extend(ctx, []workerid.Grant{g})
		if err != nil {
			return nil, err
		}
		all = append(all, r...)
	}
	return all, nil
}

func (d *daemon) Release(ctx context.Context, g workerid.Grant, last int64) error {
	if s := d.stores[g.Worker]; s != nil {
		return s.Release(ctx, g, last)
	}
	return workerid.ErrLost
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB, n int) storetest.Pool {
		p := &pool{newWorld(t), n}
		p.disk = &crashdisk.Disk{}
		return storetest.Pool{
			Min: 3, Max: uint64(3 + n - 1), Lease: static.Reserve(time.Second, 0).Milliseconds(),
			Now: func() int64 { return p.id },
			Advance: func(ms int64) {
				p.pass(ms)
				if ms < 0 { // no clock of a machine goes back since its boot
					p.clocks.Boot -= ms
				}
			},
			Open: func(testing.TB) workerid.Store { return &daemon{p, map[uint64]*static.Store{}} },
			Crash: func(s workerid.Store) {
				for _, s := range s.(*daemon).stores {
					s.Close()
				}
			},
		}
	})
}

// However long a tick is, a window that is extended in time always holds the present one whole.
func TestLongTicks(t *testing.T) {
	for _, unit := range []int64{1, 10, 1000, 2000, 10_000, 60_000} {
		w := newWorld(t)
		w.disk = &crashdisk.Disk{}
		c := w.config(7)
		c.Tick = time.Duration(unit) * time.Millisecond
		s, err := static.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		g := mustAcquire(t, s, one)
		l := generator.Katsubushi()
		l.Unit = unit
		ids, err := generator.NewSnowflake(generator.Options{Layout: l, Worker: 7, Lo: g.Lo, Hi: g.Hi})
		if err != nil {
			t.Fatal(err)
		}
		for since := int64(0); since < 3*unit+5000; since += 50 {
			if since%500 == 0 {
				next, err := extendOne(ctx, s, g)
				if err != nil {
					t.Fatal(err)
				}
				if err := ids.Extend(g.Hi+1, next.Hi); err != nil {
					t.Fatal(err)
				}
				g.Hi = next.Hi
			}
			if ahead := w.id + 1000; ids.Next() <= ahead {
				if _, err := ids.Take(w.id, ahead, 1); err != nil {
					t.Fatalf("ticks of %d ms, %d ms after the start: %v", unit, since, err)
				}
			}
			w.pass(50)
		}
		if !ids.Used() {
			t.Errorf("ticks of %d ms: no ids", unit)
		}
	}
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	now := func() int64 { return t0 }
	open := func() *static.Store {
		s, err := static.Open(static.Config{
			Dir: dir, Workers: []uint64{7}, Fingerprint: generator.Katsubushi().Fingerprint(), RunAhead: time.Second, Now: now,
			AnyDisk: true,
		})
		if err != nil {
			panic(err)
		}
		return s
	}
	s := open()
	g, err := s.Acquire(ctx, workerid.Request{Owner: "me", Min: 7, Max: 7})
	fmt.Println(g.Lo-t0, g.Hi-t0, err) // empty until it is extended
	s.Close()                          // as if killed
	s = open()
	defer s.Close()
	g, err = s.Acquire(ctx, workerid.Request{Owner: "me", Min: 7, Max: 7})
	fmt.Println(g.Lo-t0, g.Hi-t0, err) // empty, too, since the clock has not moved
	// Output:
	// 2001 2000 <nil>
	// 2001 2000 <nil>
}
