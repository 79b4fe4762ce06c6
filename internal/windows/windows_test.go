package windows

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// said is what was logged, without the time. Any goroutine may use it.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, line...)
	return len(line), nil
}

// take returns what was logged since it was called before.
func (s *said) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.text)
	s.text = nil
	return text
}

func (s *said) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A fake is a store that does what a test wants, and notes what it is asked for. It grants windows of a minute
// that begin now. Any goroutine may use it.
type fake struct {
	now    func() int64
	told   string            // the own address
	others map[string]string // announcements of other daemons

	mu      sync.Mutex
	away    error  // what every call returns; nil = it answers
	forces  error  // what Extend says of each lease
	full    bool   // no worker id is free
	granted uint64 // how many windows, each of the next worker id
	done    []string
	beats   []time.Time
	notes   []announcement.Announcement
}

const window = 60_000 // ms, of a fake's grants

// set changes how the store answers.
func (f *fake) set(away, forces error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.forces = away, forces
}

// note notes a call and returns its error.
func (f *fake) note(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, what)
	return f.away
}

// calls returns what was done since it was called before, each thing once if it was done again and again.
func (f *fake) calls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := slices.Compact(f.done)
	f.done = nil
	return strings.Join(done, ", ")
}

// beat returns how often it was asked for more.
func (f *fake) beat() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.beats)
}

func (f *fake) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	if err := f.note("acquire"); err != nil {
		return workerid.Grant{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return workerid.Grant{}, workerid.ErrNoID
	}
	f.granted++
	g := workerid.Grant{Worker: min(want.Min+f.granted-1, want.Max), Owner: want.Owner, Lo: f.now(), Hi: f.now() + window}
	return g, nil
}

func (f *fake) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if err := f.note("extend"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats = append(f.beats, time.Now())
	list := make([]workerid.Result, len(held))
	for i, g := range held {
		g.Lo, g.Hi = g.Hi+1, f.now()+window
		list[i] = workerid.Result{Grant: g, Err: f.forces}
	}
	return list, nil
}

func (f *fake) Release(context.Context, workerid.Grant, int64) error { return f.note("release") }
func (f *fake) Close() error                                         { return f.note("close") }

func (f *fake) Figures(emit func(figure.Figure)) workerid.Condition {
	emit(figure.Figure{Stat: "lease_of_the_store", Value: 7})
	return workerid.Condition{Server: "h:1"}
}

// A directory is a fake with announcements.
type directory struct{ *fake }

func (d directory) Announce(_ context.Context, _, text string) error {
	a, _ := announcement.Parse(text)
	what := "not ready"
	switch {
	case text == "":
		what = "withdraw"
	case a.Ready:
		what = "ready"
	}
	d.mu.Lock()
	d.notes = append(d.notes, a)
	d.mu.Unlock()
	return d.note(what)
}

func (d directory) Peers(context.Context) (map[string]string, error) { return d.others, nil }

// fixed configures a Holder with a fixed worker id that is recorded nowhere.
func fixed(log *said) Config {
	return Config{Log: log.logger(), WorkerIDs: []uint64{1}, Layout: generator.Katsubushi(), MaxRunAhead: time.Second,
		AnyDisk: true}
}

// leasing configures a Holder that leases from a fake.
func leasing(log *said, f *fake) Config {
	c := Config{Log: log.logger(), Layout: generator.Katsubushi(), MaxRunAhead: time.Second, Lanes: 1}
	c.Store = Store{Min: 5, Max: 9, Lease: time.Minute, Heartbeat: 10 * time.Second, Flag: "-store", Fingerprint: "f1",
		Open: func(now func() int64, address string) (workerid.Backend, error) {
			f.now, f.told = now, address
			return f, nil
		}}
	return c
}

// announcing configures a Holder that leases from a fake with announcements.
func announcing(log *said, f *fake) Config {
	c := leasing(log, f)
	c.Store.Announces = true
	c.Store.Compares = true
	c.Store.Open = func(now func() int64, address string) (workerid.Backend, error) {
		f.now, f.told = now, address
		return directory{f}, nil
	}
	c.Peers = Peers{Address: func() (string, int) { return "192.0.2.7", 0 }, Version: "3.4.5", TLS: true}
	return c
}

// bubble runs a test in a synctest bubble after the layouts' epochs.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		test(t)
	})
}

// begun returns a Holder that has started.
func begun(t *testing.T, c Config) *Holder {
	t.Helper()
	h := New(c)
	t.Cleanup(func() { h.Stop(true) })
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	h.Start()
	return h
}

// begunAfter returns a Holder that has started some time ago.
func begunAfter(t *testing.T, c Config, d time.Duration) *Holder {
	t.Helper()
	h := begun(t, c)
	time.Sleep(d)
	return h
}

// id issues one id.
func (h *Holder) id() (uint64, error) {
	run, err := h.Issuer.Source(0).Mint(id.At(h.Clock.Now()), 1, false)
	return run.First, err
}

// worker issues an id and returns its worker id.
func worker(t *testing.T, h *Holder) uint64 {
	t.Helper()
	v, err := h.id()
	if err != nil {
		t.Fatal(err)
	}
	return h.c.Layout.Decompose(v).Worker
}

// TestTwoHoldersInOneProgram: neither knows of the other. Each has its own clock, lanes and store, and one that
// stops leaves the other one alone.
func TestTwoHoldersInOneProgram(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		one, two := &fake{}, &fake{}
		first, second := leasing(&log, one), leasing(&log, two)
		second.Store.Min, second.Lanes = 7, 2
		a, b := begun(t, first), begun(t, second)
		synctest.Wait()
		if worker(t, a) != 5 || worker(t, b) != 7 || a.Issuer.Lanes() != 1 || b.Issuer.Lanes() != 2 {
			t.Errorf("%s; %s", a.Status(), b.Status())
		}
		a.Stop(false)
		if _, err := a.id(); err == nil {
			t.Error("an id after Stop")
		}
		if got := one.calls(); got != "acquire, release, close" {
			t.Errorf("the first one did: %s", got)
		}
		time.Sleep(5 * time.Minute)
		if worker(t, b) != 7 || strings.Contains(two.calls(), "close") {
			t.Error("the second one stopped with the first one")
		}
	})
}

// TestALaneThatDrainsHasItsWorkerID: until the window ends, though the lease is lost.
func TestALaneThatDrainsHasItsWorkerID(t *testing.T) {
	for _, c := range []struct {
		held  bool
		state workerid.State
		want  bool
	}{{true, workerid.Serving, true}, {true, workerid.Exhausted, true}, {false, workerid.Draining, true},
		{false, workerid.Acquiring, false}, {false, workerid.Exhausted, false}} {
		if got := HasWorker(workerid.LaneStatus{Held: c.held, State: c.state}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestHeartbeats: windows are extended as often as the store wants.
func TestHeartbeats(t *testing.T) {
	for _, want := range []time.Duration{3 * time.Second, 20 * time.Second} {
		bubble(t, func(t *testing.T) {
			var log said
			f := &fake{}
			c := leasing(&log, f)
			c.Store.Heartbeat = want
			begun(t, c)
			time.Sleep(40*want + want/2)
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := len(f.beats); n < 37 || n > 44 {
				t.Fatalf("%d extensions in 40 heartbeats", n)
			}
			for i, at := range f.beats[1:] { // they vary by a tenth, so that daemons do not act in step
				if passed := at.Sub(f.beats[i]); passed < want*89/100 || passed > want*111/100 {
					t.Errorf("%v between two extensions", passed)
				}
			}
		})
	}
}

// TestATimeOutsideTheLayout: the reason names what may be wrong.
func TestATimeOutsideTheLayout(t *testing.T) {
	c := fixed(new(said))
	if err := c.checkTime(c.Layout.Epoch + 1); err != nil {
		t.Error(err)
	}
	if err := c.checkTime(c.Layout.Epoch - 1); err == nil ||
		!strings.HasSuffix(err.Error(), ": this host's clock is wrong, or -epoch") {
		t.Error(err)
	}
}
