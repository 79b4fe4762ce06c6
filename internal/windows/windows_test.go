package windows

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
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
		Open: func(now func() int64, _ string) (workerid.Backend, error) {
			f.now = now
			return f, nil
		}}
	return c
}

// announcing configures a Holder that leases from a fake with announcements.
func announcing(log *said, f *fake) Config {
	c := leasing(log, f)
	c.Store.Announces = true
	c.Store.Compares = true
	c.Store.Open = func(now func() int64, _ string) (workerid.Backend, error) {
		f.now = now
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

// TestStopInEveryState: it gives back whatever there is, once, and waits for all that Start began: the bubble
// would not end otherwise.
func TestStopInEveryState(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name   string
		change func(*Config)
		until  func(h *Holder)
		want   string
		logs   string
	}{
		{"new", nil, func(*Holder) {}, "", ""},
		{"not opened", func(c *Config) {
			c.Store.Open = func(func() int64, string) (workerid.Backend, error) { return nil, broken }
		}, func(h *Holder) {
			if err := h.Open(); !errors.Is(err, broken) {
				t.Error(err)
			}
		}, "", ""},
		{"opened", nil, func(h *Holder) { h.Open() }, "close", ""},
		{"started", nil, func(h *Holder) {
			h.Open()
			h.Start()
		}, "acquire, not ready, release, withdraw, close", "lane=0 state=serving"},
		{"ready", nil, func(h *Holder) {
			h.Open()
			h.Start()
			synctest.Wait()
			h.Opened(0)
			time.Sleep(3 * time.Second)
		}, "acquire, not ready, ready, release, withdraw, close", "ready=true"},
		{"left", nil, func(h *Holder) {
			h.Open()
			h.Start()
			synctest.Wait()
			h.Opened(0)
			time.Sleep(3 * time.Second)
			<-h.Leave()
		}, "acquire, not ready, ready, not ready, release, withdraw, close", "ready=false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log said
				f := &fake{}
				config := announcing(&log, f)
				config.PeerCheck = "warn"
				if c.change != nil {
					c.change(&config)
				}
				h := New(config)
				c.until(h)
				synctest.Wait()
				h.Stop(false)
				h.Stop(false)
				done := strings.Replace(f.calls(), "not ready, acquire", "acquire, not ready", 1) // two goroutines
				if done != c.want {
					t.Errorf("%s, want %s", done, c.want)
				}
				if got := log.take(); !strings.Contains(got, c.logs) || strings.Contains(got, "not given back") {
					t.Errorf("%s\nwant %s", got, c.logs)
				}
			})
		})
	}
}

// TestAStoreThatTakesNothingBack: Stop says so, and ends.
func TestAStoreThatTakesNothingBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		f := &fake{}
		h := begun(t, announcing(&log, f))
		synctest.Wait()
		h.Opened(0)
		time.Sleep(3 * time.Second)
		f.set(errors.New("connection refused"), nil)
		<-h.Leave()
		h.Stop(false)
		got := log.take()
		for _, want := range []string{
			`msg="worker ids are not given back: they are free when their windows end" error="workerid: lease of lane 0 not`,
			`msg="clients that watch the store do not know that this daemon stops" error="connection refused"`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
		if _, err := h.id(); err == nil {
			t.Error("an id after Stop")
		}
	})
}

// TestStatus: which worker ids there are, what each lane waits for, and what is known of peers.
func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		f := &fake{}
		f.set(errors.New("connection refused"), nil)
		c := leasing(&log, f)
		c.Lanes = 2
		h := begun(t, c)
		time.Sleep(3 * time.Second)
		want := "no worker id yet\nlane 0: acquiring for 3s: connection refused\nlane 1: acquiring for 3s: connection refused"
		if got := h.Status(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := strings.Join(h.Notes(), "\n"); "no worker id yet\n"+got != want {
			t.Errorf("notes %q", got)
		}
		f.set(nil, nil)
		<-h.Serving()
		time.Sleep(time.Minute)
		got := strings.Replace(h.Status(), "6, 5", "5, 6", 1) // the first answer may be either lane's
		if got != "serving, worker id 5, 6" || len(h.Notes()) != 0 || !h.Leased() {
			t.Errorf("%q, %q", got, h.Notes())
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

// TestReadyIsTheProgramsOwn: if it knows better than the lanes.
func TestReadyIsTheProgramsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := leasing(&log, &fake{})
		c.Ready = func() error { return errors.New("the leader is away") }
		h := begun(t, c)
		time.Sleep(time.Second)
		if got, want := h.Status(), "the leader is away\nlane 0: serving for 1s"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestWaitersAreWoken: whoever got id.ErrWait is told to ask again.
func TestWaitersAreWoken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		f, woken := &fake{}, new(atomic.Int64)
		c := leasing(&log, f)
		c.Wake = func() { woken.Add(1) }
		h := begun(t, c)
		synctest.Wait()
		before := woken.Load()
		f.set(errors.New("away"), nil)
		time.Sleep(2 * time.Minute)
		if _, err := h.id(); !errors.Is(err, id.ErrWait) {
			t.Fatal(err)
		}
		f.set(nil, nil)
		time.Sleep(time.Minute)
		if before == 0 || woken.Load() == before {
			t.Errorf("woken %d times, then %d", before, woken.Load()-before)
		}
	})
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

// TestEveryLaneAsksForItsWorkerID: for the fixed one, or for any that may be leased.
func TestEveryLaneAsksForItsWorkerID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.WorkerIDs = []uint64{3, 700}
		h := begun(t, c)
		<-h.Serving()
		time.Sleep(2 * time.Second)
		if got := h.Status(); got != "serving, worker id 3, 700" || h.Leased() {
			t.Error(got)
		}
	})
}

// TestValidate: each thing that can be wrong is told by its field, in words.
func TestValidate(t *testing.T) {
	var log said
	minutes := generator.Katsubushi()
	minutes.Name, minutes.Unit = "minutes", 60_000
	over, later := generator.Katsubushi(), generator.Katsubushi()
	over.Epoch -= over.End()
	later.Epoch = 1767225600000 + 100*365*24*3600*1000 + 1
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   string // empty = right
	}{
		{"fixed", func(*Config) {}, ""},
		{"largest", func(c *Config) { c.WorkerIDs = []uint64{c.Layout.MaxWorker()} }, ""},
		{"too large", func(c *Config) { c.WorkerIDs = []uint64{c.Layout.MaxWorker() + 1} },
			"WorkerIDs: 1024: 0 to 1023 allowed"},
		{"twice", func(c *Config) { c.WorkerIDs = []uint64{4, 9, 4} }, "WorkerIDs: 4 is there twice"},
		{"none", func(c *Config) { c.WorkerIDs = nil }, "WorkerIDs: none given: 0 to 1023, a different one for every " +
			"daemon of the fleet; or -store, to lease one"},
		{"no layout", func(c *Config) { c.Layout = generator.Layout{} }, "Layout: "},
		{"a layout that is over", func(c *Config) { c.Layout = over },
			"Layout: no id can be issued: the time field ended at 19"},
		{"a layout that begins later", func(c *Config) { c.Layout = later },
			"Layout: no id can be issued: the time field begins at 2125-"},
		{"the latest layout", func(c *Config) {
			c.Layout = later
			c.Layout.Epoch--
		}, ""},
		{"no run-ahead", func(c *Config) { c.MaxRunAhead = 0 }, ""},
		{"a minute", func(c *Config) { c.MaxRunAhead = time.Minute }, ""},
		{"negative", func(c *Config) { c.MaxRunAhead = -1 }, "MaxRunAhead: -1ns: 0s to 1m0s allowed"},
		{"more", func(c *Config) { c.MaxRunAhead = time.Minute + 1 }, "MaxRunAhead: 1m0.000000001s: 0s to 1m0s allowed"},
		{"leased", func(c *Config) { *c = leasing(&log, nil) }, ""},
		{"both", func(c *Config) {
			*c = leasing(&log, nil)
			c.WorkerIDs = []uint64{1}
		}, "WorkerIDs: with -store worker ids are leased, not given"},
		{"a range too large", func(c *Config) {
			*c = leasing(&log, nil)
			c.Store.Max = 1024
		}, "Store.Max: 1024: at most 1023 in this layout"},
		{"no lanes", func(c *Config) {
			*c = leasing(&log, nil)
			c.Lanes = 0
		}, "Lanes: 0: 1 to 64 allowed"},
		{"most lanes", func(c *Config) {
			*c = leasing(&log, nil)
			c.Lanes, c.Store.Min, c.Store.Max = 64, 0, 63
		}, ""},
		{"more lanes", func(c *Config) {
			*c = leasing(&log, nil)
			c.Lanes, c.Store.Min, c.Store.Max = 65, 0, 100
		}, "Lanes: 65: 1 to 64 allowed"},
		{"as many lanes as worker ids", func(c *Config) {
			*c = leasing(&log, nil)
			c.Lanes = 5
		}, ""},
		{"more than worker ids", func(c *Config) {
			*c = leasing(&log, nil)
			c.Lanes = 6
		}, "Lanes: 6: more than there are worker ids from 5 to 9"},
		{"more than one worker id", func(c *Config) {
			*c = leasing(&log, nil)
			c.Lanes, c.Store.Max = 2, 5
		}, "Lanes: 2: more than there are worker ids from 5 to 5"},
		{"a short lease", func(c *Config) {
			*c = leasing(&log, nil)
			c.Store.Lease = time.Second
		}, ""},
		{"a lease as long as the ticks want", func(c *Config) {
			*c = leasing(&log, nil)
			c.Layout, c.Store.Lease = minutes, 81*time.Second
		}, ""},
		{"a shorter one", func(c *Config) {
			*c = leasing(&log, nil)
			c.Layout, c.Store.Lease = minutes, 81*time.Second-1
		}, "Store.Lease: 1m20.999999999s: with ticks of 1m0s it must be at least 1m21s"},
		{"announced", func(c *Config) {
			*c = announcing(&log, nil)
			c.Announce, c.PeerCheck = "on", "refuse"
		}, ""},
		{"not announced", func(c *Config) {
			*c = announcing(&log, nil)
			c.Announce, c.PeerCheck = "off", "off"
		}, ""},
		{"announced from nowhere", func(c *Config) {
			*c = announcing(&log, nil)
			c.Announce, c.Peers.Address = "on", nil
		}, "Announce: a unix socket has no address for others: -advertise says where clients reach it, or leave -sock out"},
		{"announced without a place", func(c *Config) { c.Announce = "on" },
			"Announce: only stores from which worker ids are leased have a place for announcements: -store URL"},
		{"checked without a place", func(c *Config) { c.PeerCheck = "warn" }, "PeerCheck: only stores from which"},
		{"refused without a place", func(c *Config) { c.PeerCheck = "refuse" }, "PeerCheck: only stores from which"},
		{"other words", func(c *Config) { c.Announce = "yes" }, `Announce: "yes": on or off allowed`},
		{"others", func(c *Config) { c.PeerCheck = "no" }, `PeerCheck: "no": refuse, warn or off allowed`},
	} {
		config := fixed(&log)
		c.change(&config)
		list := problem.Of(config.Validate())
		switch {
		case c.want == "" && len(list) > 0:
			t.Errorf("%s: %v", c.name, list.Err())
		case c.want != "" && (len(list) != 1 || !strings.HasPrefix(list[0].Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.name, list.Err(), c.want)
		}
	}
}

// TestPeersAreChecked: where the store can and they are by default, unless that is off, or where it is asked for.
func TestPeersAreChecked(t *testing.T) {
	var log said
	for _, c := range []struct {
		announces, compares bool
		mode                string
		want                bool
	}{{true, true, "", true}, {true, true, "warn", true}, {true, true, "off", false}, {false, false, "", false},
		{true, false, "", false}, {true, false, "refuse", true}} {
		config := leasing(&log, nil)
		config.Store.Announces, config.Store.Compares, config.PeerCheck = c.announces, c.compares, c.mode
		if got := config.ChecksPeers(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
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
