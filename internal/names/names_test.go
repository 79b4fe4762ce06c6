package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// room opens the room with these settings, beside one lane, until the test ends.
func room(t *testing.T, c Config) *Names {
	t.Helper()
	now := func() int64 { return time.Now().UnixMilli() }
	c.Own = Lanes{Layout: generator.Katsubushi(), RunAhead: time.Second, MaxWorker: 1}
	if err := errors.Join(c.Validate(), c.ReadSecrets()); err != nil {
		t.Fatal(err)
	}
	n := New(c, Given{
		Log: slog.New(slog.DiscardHandler), Now: now, Wake: func() {}, AnyDisk: true,
		Issuer:    issuer.New(issuer.Config{Lanes: 1, Layout: c.Own.Layout, RunAhead: c.Own.RunAhead, Now: now}),
		Forwarder: func() *forward.Client { return forward.New(forward.Config{}) },
	})
	t.Cleanup(n.Stop)
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	return n
}

// TestReloadsAddUpToTheLimit: names stay, so files that replace each other cannot grow without end.
func TestReloadsAddUpToTheLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names")
	write := func(stem string, count int) {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "%s%d uuid4\n", stem, i)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a", 2)
	n := room(t, Config{DefinitionsFile: file})
	write("b", kinds.MaxNames-1)
	if err := n.Reload(); err == nil ||
		err.Error() != "10001 names with those that are served already: 10000 allowed" || len(n.Catalog.Names()) != 2 {
		t.Errorf("%v, %d names", err, len(n.Catalog.Names()))
	}
	write("b", kinds.MaxNames-2)
	if err := n.Reload(); err != nil || len(n.Catalog.Names()) != kinds.MaxNames {
		t.Errorf("%v, %d names", err, len(n.Catalog.Names()))
	}
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
	c := Config{Counters: stores.Counters{Dir: t.TempDir()}, MaxWait: time.Minute, Definitions: "first sequence"}
	n := room(t, c)
	n.sequences.store = meeting{n.sequences.store, make(chan struct{})}
	declare := func(lines string) error {
		t.Helper()
		all, _, err := n.c.definitions([]byte(lines), nil)
		if err != nil {
			t.Fatal(err)
		}
		return n.declare(all[1:])
	}
	n.declaring.Lock() // what the first attempt has recorded is not learnt of before the second
	var lines, names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("s", (i*37)%100))
		lines = append(lines, names[i]+" sequence")
	}
	if err := declare(strings.Join(append(lines, "broken sequence"), "\n")); err == nil ||
		err.Error() != "name broken: no room" {
		t.Error(err)
	}
	if got := len(n.served()); got != 1 {
		t.Errorf("%d names are served", got)
	}
	err := declare(strings.Join(append(lines, "u uuid7"), "\n"))
	n.declaring.Unlock()
	if err != nil {
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
		runs, err := n.Catalog.Batch(t.Context(), []byte(name), 1)
		if err != nil || runs[0].First != 1 {
			t.Errorf("%s: %v, %v", name, runs, err)
		}
	}
}

// TestReadyFollowsTheLanes: the default kind makes the names ready, whatever declared ones do.
func TestReadyFollowsTheLanes(t *testing.T) {
	n := room(t, Config{Definitions: "u uuid4"})
	if err := n.Ready(); err == nil {
		t.Error("ready without a window")
	}
	now := n.given.Now()
	if err := n.given.Issuer.Publish(0, 1, now, now+time.Hour.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(); err != nil {
		t.Error("with a window:", err)
	}
}
