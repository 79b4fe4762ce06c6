package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// patience is how long a client waits in a test: no test measures it.
const patience = time.Minute

// ownLanes are those of a daemon with one lane.
var ownLanes = Lanes{Layout: generator.Katsubushi(), RunAhead: time.Second, MaxWorker: 1}

// closed makes a room with these settings, beside one lane that issues.
func closed(t *testing.T, c Config) *Names {
	t.Helper()
	now := func() int64 { return time.Now().UnixMilli() }
	if c.Own.Layout == (generator.Layout{}) {
		c.Own = ownLanes
	}
	if err := errors.Join(c.Validate(), c.ReadSecrets()); err != nil {
		t.Fatal(err)
	}
	lanes := issuer.New(issuer.Config{Lanes: 1, Layout: c.Own.Layout, RunAhead: c.Own.RunAhead, Now: now})
	if err := lanes.Publish(0, 1, now(), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return New(c, Given{
		Log: slog.New(slog.DiscardHandler), Now: now, Wake: func() {}, AnyDisk: true, Issuer: lanes,
		Forwarder: func() *forward.Client { return forward.New(forward.Config{Timeout: time.Second}) },
	})
}

// room opens a room until the test ends, after the changes.
func room(t *testing.T, c Config, change ...func(*Names)) *Names {
	t.Helper()
	n := closed(t, c)
	for _, f := range change {
		f(n)
	}
	t.Cleanup(n.Stop)
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Start()
	return n
}

// parse reads a definition.
func parse(t *testing.T, line string) kinds.Definition {
	t.Helper()
	def, err := kinds.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// today waits until a day at which layouts have ids, in a bubble.
func today() { time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))) }

// bubble runs a test on a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		today()
		f(t)
	})
}

// next returns the next id of a name, or the words of the refusal.
func (n *Names) next(t *testing.T, name string) string {
	t.Helper()
	runs, err := n.Catalog.Batch(t.Context(), []byte(name), 1)
	if err != nil {
		return err.Error()
	}
	return string(runs[0].Append(nil, 0))
}

// TestNamesOfATextKindShareASource: ten thousand names of one kind cost no more than one.
func TestNamesOfATextKindShareASource(t *testing.T) {
	n := room(t, Config{Definitions: "a uuid7; b uuid7; c ulid; d snowflake"})
	by := map[string]issuer.Kind{}
	for _, g := range n.Catalog.Names() {
		by[g.Name] = g.From
	}
	if by["a"] != by["b"] || by["a"] == by["c"] || by["d"] != issuer.Kind(n.given.Issuer) {
		t.Errorf("%v", by)
	}
}

// A meeting store records nothing until two sequences are to be recorded at the same time, and
// never "broken".
type meeting struct {
	stores.CounterStore
	met chan struct{}
}

func (m meeting) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if d.Name == "broken" {
		return counter.Record{}, errors.New("no room")
	}
	select {
	case m.met <- struct{}{}:
	case <-m.met:
	case <-ctx.Done():
		return counter.Record{}, ctx.Err()
	}
	return m.CounterStore.Define(ctx, d)
}

// TestSequencesAreRecordedSideBySide: many are recorded at the same time, and declared in the order of their lines, or
// none of them.
func TestSequencesAreRecordedSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := room(t, Config{Counters: stores.Counters{Dir: "/"}, MaxWait: patience, Definitions: "first sequence"},
			func(n *Names) { newBoard().serve(n, false) })
		synctest.Wait() // the first poll would declare what is recorded first
		n.sequences.store = meeting{n.sequences.store, make(chan struct{})}
		declare := func(lines string) error {
			all, _, err := n.c.definitions([]byte(lines), nil)
			if err != nil {
				t.Fatal(err)
			}
			return n.declare(t.Context(), all[1:])
		}
		var lines, names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("s", (i*37)%100))
			lines = append(lines, names[i]+" sequence")
		}
		if err := declare(strings.Join(append(lines, "broken sequence"), "\n")); fmt.Sprint(err) != "name broken: no room" {
			t.Error(err)
		}
		if got := len(n.served()); got != 1 {
			t.Errorf("%d names are served", got)
		}
		if err := declare(strings.Join(append(lines, "u uuid7"), "\n")); err != nil {
			t.Fatal(err)
		}
		var served []string
		for _, g := range n.Catalog.Names() {
			served = append(served, g.Name)
		}
		if want := append(append([]string{"first"}, names...), "u"); !slices.Equal(served, want) {
			t.Errorf("served: %v", served)
		}
		for _, name := range names {
			if got := n.next(t, name); got != "1" {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// TestEverybodyIsWoken: requests apart from the ports ask again at once, not after issuer.Patience, and the ports are
// told.
func TestEverybodyIsWoken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		told := 0
		n := room(t, Config{}, func(n *Names) { n.given.Wake = func() { told++ } })
		var w waiting
		n.Catalog.Declare([]issuer.Declared{{Definition: parse(t, "w sequence"), From: &w}})
		began, answered := time.Now(), make(chan string)
		go func() { answered <- n.next(t, "w") }()
		synctest.Wait()
		w.Store(true)
		n.Wake()
		if got := <-answered; got != "7" || !time.Now().Equal(began) || told != 1 {
			t.Errorf("%s after %v, the ports were told %d times", got, time.Since(began), told)
		}
	})
}

// waiting is a kind whose only id comes once it is true.
type waiting struct{ atomic.Bool }

func (w *waiting) Source(int) id.Source { return w }
func (w *waiting) Ready(int64) error    { return nil }

func (w *waiting) Mint(id.When, int, bool) (id.Run, error) {
	if !w.Load() {
		return id.Run{}, id.ErrWait
	}
	return id.Run{First: 7, N: 1}, nil
}
