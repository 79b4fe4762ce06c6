package storefaults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Quorum skips a test that breaks servers of three, unless KATSUBUSHI_SOAK is set: each takes half a
// minute and three servers.
func Quorum(t *testing.T) {
	t.Helper()
	if os.Getenv("KATSUBUSHI_SOAK") == "" {
		t.Skip("make faults runs it")
	}
}

// A Kind is a kind of store.
type Kind struct {
	Stores  cas.Kind
	User    string                                           // with the password, as it stands in a URL; empty = none
	Timeout time.Duration                                    // of a call; 0 = cas.DefaultTimeout
	Servers func(t testing.TB, n int, mayBreak bool) Servers // for a test, which may replace the data if mayBreak
}

func (k Kind) driver(s cas.Settings) (cas.Driver, error) {
	made, err := k.Stores.Config(s, 0, true)
	return made.Driver, err
}

// Servers are those of one store, which a test may break.
type Servers interface {
	Hosts() []string // the addresses, in order
	Pause(i int)
	Resume(i int)
	Kill(i int)
	Launch(i int) // does not wait
	Ready()       // waits until all that run are ready
	Leader() int
}

// A Disk is what Servers have whose data can be saved while they serve, and replaced while all of them are killed.
type Disk interface {
	Servers
	Save() (copied string)
	Restore(copied string) // "" wipes it
}

// Leases of the tests. With the short one, a test may wait until a lease is over; with the long one,
// whatever a busy machine delays is far shorter than a lease.
const (
	Short  = 8 * time.Second
	Medium = 30 * time.Second // for a test that may have to wait for one, and must not lose one
	Long   = 2 * time.Minute
)

// Calm is the time of a call where nothing happens to the servers: a machine so busy that each call takes a second
// longer ends no lease.
const Calm = Long / 40

// terms are those of all daemons: the worker ids 1 to ids.
func terms(lease time.Duration, ids uint64) workerid.Terms {
	return workerid.Terms{Layout: "test", Min: 1, Max: ids, Lease: lease, Heartbeat: 500 * time.Millisecond,
		MaxSkew: 500 * time.Millisecond}
}

// A World is a pool on real servers, and its daemons.
type World struct {
	testing.TB
	Kind
	Servers
	terms workerid.Terms
	ns    string

	look *look // made when it is wanted first

	mu      sync.Mutex
	windows map[uint64][]window
	daemons []*Daemon
}

// A window is a stretch of time that a daemon was granted for a worker id.
type window struct {
	daemon string
	lo, hi int64
}

// New makes a World with a pool of worker ids from 1 to ids.
func New(t testing.TB, k Kind, s Servers, lease time.Duration, ids uint64) *World {
	t.Helper()
	w := &World{TB: t, Kind: k, Servers: s, terms: terms(lease, ids), ns: fmt.Sprint("faults", pools.Add(1)),
		windows: map[uint64][]window{}}
	w.MakePool()
	return w
}

var pools atomic.Int64

// URL is that of the pool at these addresses.
func (w *World) URL(hosts ...string) string {
	return fmt.Sprintf("%s://%s%s?ns=%s", w.Stores.Scheme, w.User, strings.Join(hosts, ","), w.ns)
}

// settings are those of a daemon that reaches the store at these addresses.
func (w *World) settings(hosts []string) cas.Settings {
	s := cas.Settings{URL: w.URL(hosts...), Terms: w.terms}
	s.Boot = boot
	return s
}

var started = time.Now()

func boot() int64 { return int64(time.Hour + time.Since(started)) }

// patience is how long anything may take before a test fails.
const patience = 5 * time.Minute

// Until waits for a condition, and fails the test when it does not come true.
func (w *World) Until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if w.Failed() {
			w.FailNow()
		}
		if time.Now().After(deadline) {
			var states []string
			for _, d := range w.daemons {
				states = append(states, fmt.Sprintf("%s %+v", d.name, d.lanes()))
			}
			w.Fatalf("it did not come true that %s. The daemons:\n%s", what, strings.Join(states, "\n"))
		}
	}
}

// book checks that a window was not granted to anybody before.
func (w *World) book(worker uint64, n window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.windows[worker] {
		if n.lo <= n.hi && o.lo <= n.hi && n.lo <= o.hi {
			w.Errorf("worker id %d: %+v overlaps %+v", worker, n, o)
		}
	}
	w.windows[worker] = append(w.windows[worker], n)
}

// cut ends a daemon's windows: the rest was given back.
func (w *World) cut(worker uint64, daemon string, last int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, o := range w.windows[worker] {
		if o.daemon == daemon {
			w.windows[worker][i].hi = min(o.hi, last)
		}
	}
}

// A look is a driver of the test's own.
type look struct {
	cas.Driver
	conn string
}

// with calls the store itself, as an operator does, until that succeeds.
func (w *World) with(what string, f func(ctx context.Context, l look) error) {
	w.Helper()
	if w.look == nil {
		d, err := w.driver(w.settings(w.Hosts()))
		if err != nil {
			w.Fatal(err)
		}
		w.look = &look{d, ""}
		w.Cleanup(func() { d.Close() })
	}
	w.Until(what+" is possible", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var err error
		if w.look.conn, err = w.look.Connect(ctx); err == nil {
			err = f(ctx, *w.look)
		}
		if err != nil {
			w.Logf("%s: %v", what, err)
		}
		return err == nil
	})
}

// operator does what `katsubushi lease` does, until that succeeds.
func (w *World) operator(what string, f func(ctx context.Context, a workerid.Admin) error) {
	w.Helper()
	a, err := w.Stores.Admin(w.settings(w.Hosts()), 0)
	if err != nil {
		w.Fatal(err)
	}
	defer a.Close()
	w.Until(what+" succeeds", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := f(ctx, a)
		if err != nil {
			w.Logf("%s: %v", what, err)
		}
		return err == nil
	})
}

func (w *World) meta() pool.Meta {
	return pool.Meta{
		Epoch: "0", Floor: time.Now().Add(-time.Hour).UnixMilli(), Fingerprint: w.terms.Layout,
		Lease:   w.terms.Lease.Milliseconds(),
		Epsilon: workerid.Epsilon(w.terms.MaxSkew).Milliseconds(), Min: w.terms.Min, Max: w.terms.Max,
	}
}

// MakePool makes a pool that can be used at once.
func (w *World) MakePool() {
	w.Helper()
	m := w.meta()
	w.with("making a pool", func(ctx context.Context, l look) error {
		all := make([]uint64, 0, m.Max)
		for id := m.Min; id <= m.Max; id++ {
			all = append(all, id)
		}
		for part := range slices.Chunk(all, cas.MaxRecords) {
			c := pool.Change{If: map[uint64]string{}, Set: map[uint64]string{}}
			for _, id := range part {
				c.If[id], c.Set[id] = "", pool.Record{}.String()
			}
			if _, err := l.Commit(ctx, l.conn, c); err != nil { // it may be there after an answer that was lost
				return err
			}
		}
		_, err := l.Commit(ctx, l.conn, pool.Change{Fresh: true, SetMeta: m.String()})
		return err
	})
}

// View is what is recorded now.
func (w *World) View() (v pool.View) {
	w.Helper()
	w.with("reading", func(ctx context.Context, l look) (err error) {
		v, err = l.Load(ctx, l.conn)
		return err
	})
	return v
}

// Proxy is one in front of a server.
func (w *World) Proxy(i int) *redistest.Proxy { return redistest.NewProxy(w.TB, w.Hosts()[i]) }

// Main is for TestMain: it runs the tests, or what Spawn starts. In the end it calls end. It runs more tests beside
// each other than there are processors: they wait for servers most of the time.
func Main(m *testing.M, stores cas.Kind, end func()) {
	if os.Getenv(asDaemon) != "" {
		daemonProcess(stores)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set(f.Name, "8")
	}
	code := m.Run()
	end()
	os.Exit(code)
}
