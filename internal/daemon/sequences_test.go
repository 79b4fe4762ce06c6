package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
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
				c.Definitions = "orders sequence; evens sequence start=1000 step=2 offset=2; u7 uuid7"
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
		c.Counters, c.AnyDisk, c.MaxWait, c.Definitions = settings, true, patience, "orders sequence"
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
			c.WorkerIDs, c.Counters, c.AnyDisk, c.MaxWait, c.Definitions = []uint64{uint64(worker)}, settings, true, patience,
				"orders sequence start=5 step=5"
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
	c.Definitions, c.MaxWait = "orders sequence", time.Second
	if _, err := New(c); !errors.Is(err, stores.ErrNoPlace) {
		t.Errorf("without a directory: %v", err)
	}
	c.Counters.Dir, c.AnyDisk = t.TempDir(), true
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
	var different *kinds.DifferentError
	if _, err := New(c); !errors.As(err, &different) {
		t.Errorf("another definition is recorded: %v", err)
	}
}

// A directory by default that cannot be used stops a daemon only if it declares a sequence: it is not served from
// anywhere else, and nobody can create one there.
func TestSequencesInAnUnusableDirectoryByDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for generators, starts := range map[string]bool{"": true, "u7 uuid7": true, "orders sequence; u7 uuid7": false} {
		c := testConfig()
		c.Counters = stores.Counters{Dir: filepath.Join(file, "sub"), DirByDefault: true}
		c.Definitions, c.MaxWait = generators, time.Second
		d, err := New(c)
		if starts != (err == nil) || err != nil && !strings.Contains(err.Error(), "name orders: counter store: ") {
			t.Errorf("%q: %v", generators, err)
		}
		if err != nil {
			continue
		}
		_, err = d.names.Sequences()
		if !errors.As(err, new(stores.Conflict)) || !strings.Contains(err.Error(), c.Counters.Dir) {
			t.Errorf("%q: to create one: %v", generators, err)
		}
		c.Counters.DirByDefault = false
		if _, err := New(c); err == nil {
			t.Errorf("%q: it starts although the directory was named", generators)
		}
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
	_, address := run(t, func(c *Config) {
		c.Counters, c.AnyDisk, c.MaxWait, c.Definitions = settings, true, patience, "u7 uuid7"
	})
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
	c.Counters, c.AnyDisk, c.MaxWait, c.Definitions = settings, true, time.Second,
		"u7 uuid7; before sequence step=2; after sequence"
	var different *kinds.DifferentError
	if _, err := New(c); !errors.As(err, &different) ||
		!strings.Contains(err.Error(), `"u7 uuid7" is not what is recorded, "u7 sequence start=1"`) {
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
	d.windows.Stop(true)
	d.services.Stop()
	c.Definitions = "orders sequence"
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "name orders: ") ||
		!strings.Contains(err.Error(), "/proc/version") {
		t.Error(err)
	}
	// Where worker ids are recorded in it too, so would be sequences that other daemons create.
	c.Definitions, c.StateDir, c.StateDirByDefault, c.AnyDisk = "", t.TempDir(), true, true
	c.RuntimeDir = t.TempDir()
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "/proc/version") {
		t.Error(err)
	}
}

// What must not be written over, in the place of a record that this daemon declares: all else is served.
func TestDeclaredRecordsThatCannotBeUsed(t *testing.T) {
	settings := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	dir := filepath.Join(settings.Dir, "sequences")
	later := durable.Format{Kind: "sequence", Version: "2"}
	text := later.Append(later.Append(nil, "name later\n"), "name later\n")
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "directory.sequence"), 0o700),
		os.WriteFile(filepath.Join(dir, "later.sequence"), text, 0o600),
		os.Symlink("elsewhere", filepath.Join(dir, "lock.lock")))
	if err != nil {
		t.Fatal(err)
	}
	d, _ := run(t, func(c *Config) {
		c.Counters, c.AnyDisk, c.MaxWait = settings, true, patience
		c.Definitions = "directory sequence; later sequence; lock sequence; healthy sequence"
	})
	for name, why := range map[string]string{
		"directory": "no plain file", "later": "another version", "lock": "a symbolic link", "healthy": "", "id": "",
	} {
		runs, err := d.names.Catalog.Batch(t.Context(), []byte(name), 1)
		if got := fmt.Sprint(err); why == "" && (err != nil || len(runs) == 0) || !strings.Contains(got, why) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, "later.sequence")); err != nil || string(now) != string(text) {
		t.Errorf("the record of a later version was written over: %v", err)
	}
}

// A record that is damaged, and one of another machine: both names are refused, also if only the store knows
// them, and all else is served. Only a raise makes them usable, while the daemon runs.
func TestRecordsThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	settings := stores.Counters{Dir: dir, AnyDisk: true}
	admin, err := settings.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	evens := counter.Definition{Name: "evens", Start: 1, Step: 2, Offset: 2, Max: counter.MaxValue}
	for _, def := range []counter.Definition{counter.Sequence("damaged"), evens, counter.Sequence("healthy")} {
		if _, err := admin.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "sequences", name+".sequence"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copied, err := os.ReadFile("../../counter/file/testdata/golden.sequence") // of another machine
	if err != nil {
		t.Fatal(err)
	}
	write("damaged", make([]byte, 8192))
	write("evens", []byte("nonsense"))
	write("shop.orders%3A{eu}", copied)
	const foreign = "shop.orders:{eu}"
	d, _ := run(t, func(c *Config) {
		c.Counters, c.AnyDisk, c.MaxWait = settings, true, patience
		c.Definitions = "damaged sequence"
	})
	next := func(name string) (uint64, string) {
		runs, err := d.names.Catalog.Batch(t.Context(), []byte(name), 1)
		if err != nil {
			return 0, err.Error()
		}
		return runs[0].First, ""
	}
	for name, why := range map[string]string{
		"damaged": "the record is damaged", "evens": "the record is damaged", foreign: "written on another machine",
		"healthy": "", "id": "", "other": "",
	} {
		if v, got := next(name); !strings.Contains(got, why) || why == "" && (got != "" || v == 0) {
			t.Errorf("%s: %d, %q", name, v, got)
		}
	}
	log := func() string { return fmt.Sprint(d.observer.View().Events) }
	text := log()
	if strings.Count(text, "the records of sequences cannot be used") != 1 || !strings.Contains(text, "count=3") {
		t.Error(text)
	}
	ready := func() (names string) {
		d.names.Catalog.Metrics(d.windows.Clock.Now(), false, func(f figure.Figure) {
			if f.Stat == "ready" && f.Value == true {
				names += f.Labels[1] + " "
			}
		})
		return names
	}
	if got := ready(); got != "healthy " {
		t.Errorf("metrics have ready: %s", got)
	}
	shown := 0
	for _, n := range d.observer.View().Names {
		if n.Refusal != "" {
			shown++
		}
	}
	if shown != 3 {
		t.Errorf("the page has %d names that issue nothing", shown)
	}

	raise := func(name string, def kinds.Definition) error {
		_, err := stores.Raise(t.Context(), admin, name, 20001, func() kinds.Definition { return def })
		return err
	}
	err = raise("evens", kinds.Definition{})
	if err == nil || !strings.Contains(err.Error(), "-name 'evens sequence ...'") {
		t.Errorf("without a definition: %v", err)
	}
	for name, def := range map[string]kinds.Definition{
		"damaged": kinds.Declared(counter.Sequence("damaged")), "evens": kinds.Declared(evens), foreign: {},
	} {
		if err := raise(name, def); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	await(t, "all are ready", func() bool { return len(strings.Fields(ready())) == 4 })
	for name, want := range map[string]uint64{"damaged": 20001, "evens": 20002, foreign: 20001} {
		if v, why := next(name); v != want {
			t.Errorf("%s: %d, %s; want %d", name, v, why, want)
		}
	}
	if len(d.names.Catalog.Names()) != 4 {
		t.Error("a name is there twice")
	}
	await(t, "the log says so", func() bool { return strings.Contains(log(), "can be used again") })
}
