package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A counting daemon's values are checked one by one: each continues where the last one ended.
type counting struct {
	next map[string]uint64
	step map[string]uint64
}

func (c *counting) check(t *testing.T, how string, keys, texts []string) {
	t.Helper()
	if len(keys) != len(texts) {
		t.Fatalf("%s: %d answers to %d keys", how, len(texts), len(keys))
	}
	for i, key := range keys {
		if c.step[key] == 0 { // of another kind
			continue
		}
		if want := strconv.FormatUint(c.next[key], 10); texts[i] != want {
			t.Fatalf("%s: %s is answered %s, want %s", how, key, texts[i], want)
		}
		c.next[key] += c.step[key]
	}
}

// Sequences over every engine and grammar. One daemon follows another, and no value is missing
// between them.
func TestSequencesContinueAcrossCleanStops(t *testing.T) {
	dir := t.TempDir()
	c := &counting{next: map[string]uint64{"orders": 1, "evens": 1000}, step: map[string]uint64{"orders": 1, "evens": 2}}
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			d, address := run(t, func(c *Config) {
				c.Engine, c.HTTPPort, c.MaxWait = engine, redistest.FreePort(t), patience
				c.Counters.Dir, c.AnyDisk = dir, true
				c.Generators = "orders sequence; evens sequence start=1000 step=2 offset=2; u7 uuid7"
			})
			conn := dial(t, address)
			r := bufio.NewReader(conn)
			for _, keys := range []string{"orders", "orders id orders evens u7 evens orders", strings.Repeat(" orders", 1000)} {
				list := strings.Fields(keys)
				fmt.Fprintf(conn, "gets %s\r\n", strings.Join(list, " "))
				c.check(t, "gets", list, values(t, r, list, true))
			}
			fmt.Fprintf(conn, "incr evens 300\r\n")
			line, err := r.ReadString('\n')
			if want := c.next["evens"] + 299*2; err != nil || line != fmt.Sprintf("%d\r\n", want) {
				t.Fatalf("incr is answered %q, %v, want %d", line, err, want)
			}
			c.next["evens"] += 300 * 2
			b := dial(t, address)
			list := []string{"evens", "orders", "orders"}
			c.check(t, "GETK", list, binaryValues(t, b, list))
			c.check(t, "HTTP", list, overHTTP(t, d, list))
		})
	}
	if c.next["orders"] < 1000 {
		t.Error("no engine was tested")
	}
}

// A daemon whose sequences are raised and retired by somebody else, while it runs.
func TestAnOperatorChangesASequence(t *testing.T) {
	settings := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	_, address := run(t, func(c *Config) {
		c.Counters, c.AnyDisk, c.MaxWait, c.Generators = settings, true, patience, "orders sequence"
	})
	admin, err := settings.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	conn := dial(t, address)
	r := bufio.NewReader(conn)
	ask := func() string {
		fmt.Fprintf(conn, "get orders\r\n")
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "VALUE") {
			line, _ = r.ReadString('\n')
			r.ReadString('\n')
		}
		return strings.TrimSpace(line)
	}
	if got := ask(); got != "1" {
		t.Errorf("%q", got)
	}
	if _, err := admin.Raise(t.Context(), "orders", 5_000_000); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(patience)
	for last := uint64(1); last < 5_000_000; {
		v, err := strconv.ParseUint(ask(), 10, 64)
		if err != nil || v <= last || time.Now().After(until) {
			t.Fatalf("%d after %d: %v", v, last, err)
		}
		if last = v; v > 1_000_000 && v != 5_000_000 {
			t.Fatalf("%d is the first value after a raise", v)
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := admin.Retire(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != "SERVER_ERROR sequence orders is retired"; {
		if got = ask(); time.Now().After(until) {
			t.Fatal(got)
		}
		time.Sleep(time.Millisecond)
	}
}

// Clients of two daemons on one directory: no value twice, and each client's values rise.
func TestTwoDaemonsShareASequence(t *testing.T) {
	settings := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	var mu sync.Mutex
	seen := map[string]bool{}
	var clients sync.WaitGroup
	for worker := range 2 {
		_, address := run(t, func(c *Config) {
			c.WorkerIDs, c.Counters, c.AnyDisk, c.MaxWait, c.Generators = []uint64{uint64(worker)}, settings, true, patience, "orders sequence start=5 step=5"
		})
		for range 4 {
			conn := dial(t, address)
			clients.Go(func() {
				r := bufio.NewReader(conn)
				keys := strings.Fields(strings.Repeat("orders ", 50))
				for last := 0; !t.Failed() && last < 20_000; {
					fmt.Fprintf(conn, "get %s\r\n", strings.Join(keys, " "))
					mu.Lock()
					for _, text := range values(t, r, keys, false) {
						v, err := strconv.Atoi(text)
						if err != nil || v <= last || v%5 != 0 || seen[text] {
							t.Errorf("%s after %d, seen before: %v", text, last, seen[text])
						}
						last, seen[text] = v, true
					}
					mu.Unlock()
				}
			})
		}
	}
	clients.Wait()
}

func TestSequencesThatCannotBeServed(t *testing.T) {
	c := testConfig()
	c.Generators, c.MaxWait = "orders sequence", time.Second
	if _, err := New(c); !errors.Is(err, stores.ErrNoPlace) {
		t.Errorf("without a directory: %v", err)
	}
	c.Counters.Dir, c.AnyDisk, c.secrets = t.TempDir(), true, secrets{}
	store, err := stores.Counters{Dir: c.Counters.Dir, AnyDisk: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d := counter.Sequence("orders")
	d.Start = 7
	if _, err := store.Define(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	var different *stores.DifferentError
	if _, err := New(c); !errors.As(err, &different) {
		t.Errorf("another definition is recorded: %v", err)
	}
}

// A sequence that only an operator has created is served, from the start or within about a second; until
// then its name stands for the default kind, as that of any other key.
func TestSequencesThatOnlyTheStoreKnows(t *testing.T) {
	settings := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	admin, err := settings.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	create := func(name string) {
		if _, err := admin.Define(t.Context(), counter.Sequence(name)); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	_, address := run(t, func(c *Config) { c.Counters, c.AnyDisk, c.MaxWait, c.Generators = settings, true, patience, "u7 uuid7" })
	conn := dial(t, address)
	r := bufio.NewReader(conn)
	ask := func(key string) string {
		fmt.Fprintf(conn, "get %s\r\n", key)
		return values(t, r, []string{key}, false)[0]
	}
	if got := ask("before"); got != "1" {
		t.Errorf("the first value is %s", got)
	}
	create("after")
	create("u7") // served as another kind: it stays what it is
	await(t, "what was created is served", func() bool { return ask("after") == "1" })
	if got := ask("u7"); len(got) != 36 {
		t.Errorf("u7 has become a sequence: %s", got)
	}
	c := testConfig()
	c.Counters, c.AnyDisk, c.MaxWait, c.Generators = settings, true, time.Second, "u7 uuid7; before sequence step=2; after sequence"
	var different *stores.DifferentError
	if _, err := New(c); !errors.As(err, &different) || !strings.Contains(err.Error(), `"u7 uuid7" is not what is recorded, "u7 sequence start=1"`) {
		t.Errorf("u7 is recorded as a sequence, and declared as another kind: %v", err)
	}
}

// A directory that nobody has named must not stop a daemon that needs none, but one that declares a
// sequence.
func TestADefaultDirectoryThatCannotBeUsed(t *testing.T) {
	c := testConfig()
	c.Counters = stores.Counters{Dir: "/proc/version", DirByDefault: true}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.store.Close()
	d.dropServices()
	c.Generators, c.secrets = "orders sequence", secrets{}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "generator orders: ") || !strings.Contains(err.Error(), "/proc/version") {
		t.Error(err)
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

// Many sequences are recorded side by side, and declared in the order of their lines, or none of them.
func TestSequencesAreRecordedSideBySide(t *testing.T) {
	d, address := run(t, func(c *Config) {
		c.Counters.Dir, c.AnyDisk, c.MaxWait = t.TempDir(), true, patience
		c.Generators = "first sequence"
	})
	d.sequences.store = meeting{d.sequences.store, make(chan struct{})}
	declare := func(lines string) error {
		t.Helper()
		all, _, err := d.c.definitions([]byte(lines), nil)
		if err != nil {
			t.Fatal(err)
		}
		d.declaring.Lock()
		defer d.declaring.Unlock()
		return d.declare(all[1:])
	}
	var lines, names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("s", (i*37)%100))
		lines = append(lines, names[i]+" sequence")
	}
	if err := declare(strings.Join(append(lines, "broken sequence"), "\n")); err == nil || err.Error() != "generator broken: no room" {
		t.Fatal(err)
	}
	if n := len(d.served()); n != 1 {
		t.Errorf("%d names are served", n)
	}
	if err := declare(strings.Join(append(lines, "u uuid7"), "\n")); err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, g := range d.catalog.Generators() {
		served = append(served, g.Name)
	}
	if want := append(append([]string{"first"}, names...), "u"); !slices.Equal(served, want) {
		t.Errorf("served: %v", served)
	}
	conn := dial(t, address)
	fmt.Fprintf(conn, "get %s\r\n", strings.Join(names, " "))
	for i, v := range values(t, bufio.NewReader(conn), names, false) {
		if v != "1" {
			t.Errorf("%s: %s", names[i], v)
		}
	}
}
