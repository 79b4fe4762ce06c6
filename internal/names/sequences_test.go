package names

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// files returns settings for a new directory, and an operator's access to it.
func files(t *testing.T) (stores.Counters, stores.CounterStore) {
	t.Helper()
	c := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	admin, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	return c, admin
}

// record records sequences.
func record(t *testing.T, admin counter.Admin, all ...counter.Definition) {
	t.Helper()
	for _, def := range all {
		if _, err := admin.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
}

// refused returns why a room does not open.
func refused(t *testing.T, c Config) error {
	t.Helper()
	n := closed(t, c)
	defer n.Stop()
	return n.Open()
}

// Sequences that are raised and retired by somebody else, while the room runs.
func TestAnOperatorChangesASequence(t *testing.T) {
	c, admin := files(t)
	n := room(t, Config{Counters: c, MaxWait: patience, Definitions: "orders sequence"})
	if got := n.next(t, "orders"); got != "1" {
		t.Error(got)
	}
	if _, err := admin.Raise(t.Context(), "orders", 5_000_000); err != nil {
		t.Fatal(err)
	}
	last := uint64(1)
	childprocess.Until(t, "smaller values are dropped", func() bool {
		v := n.number(t, "orders")
		if v <= last || v > 1_000_000 && last < 1_000_000 && v != 5_000_000 {
			t.Fatalf("%d after %d", v, last)
		}
		last = v
		return v >= 5_000_000
	})
	if _, err := admin.Retire(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	childprocess.Until(t, "it is retired", func() bool { return n.next(t, "orders") == "sequence orders is retired" })
	if n.Refused() != 1 {
		t.Errorf("%d refusals", n.Refused())
	}
}

// Clients of two rooms on one directory: no value twice, and each client's values rise.
func TestTwoRoomsShareASequence(t *testing.T) {
	c, _ := files(t)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var clients sync.WaitGroup
	for range 2 {
		n := room(t, Config{Counters: c, MaxWait: patience, Definitions: "orders sequence start=5 step=5"})
		for range 4 {
			clients.Go(func() {
				for last := uint64(0); !t.Failed() && last < 20_000; {
					runs, err := n.Catalog.Batch(t.Context(), []byte("orders"), 50)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					for _, r := range runs {
						values := make([]uint64, r.N)
						r.Fill(values)
						for _, v := range values {
							if v <= last || v%5 != 0 || seen[v] {
								t.Errorf("%d after %d, seen before: %v", v, last, seen[v])
							}
							last, seen[v] = v, true
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	clients.Wait()
}

// A value that was not issued goes back at a clean stop, whatever the step.
func TestSequencesContinueAfterAStop(t *testing.T) {
	c, _ := files(t)
	for life := range uint64(2) {
		t.Run(fmt.Sprint(life), func(t *testing.T) {
			n := room(t, Config{Counters: c, MaxWait: patience, Definitions: "evens sequence start=1000 step=2 offset=2"})
			if got := n.number(t, "evens"); got != 1000+2*life {
				t.Error(got)
			}
		})
	}
}

func TestDefinitionsThatARoomCannotServe(t *testing.T) {
	katsubushi := Lanes{Layout: generator.Katsubushi(), RunAhead: time.Second, MaxWorker: 40}
	long := generator.Layout{Epoch: 1420070400000, Unit: 1000, TimeBits: 2, WorkerBits: 1, SequenceBits: 60}
	for _, c := range []struct {
		own        Lanes
		line, want string
	}{
		{katsubushi, "a sequence", stores.ErrNoPlace.Error()},
		{Lanes{Layout: long, RunAhead: time.Second}, "a objectid",
			"generator: 1 worker + 60 sequence bits: objectid has 54 for both"},
		{katsubushi, "a snowflake layout=js53", "worker ids go up to 40: layout js53 has 0 to 31"},
		{Lanes{Layout: generator.Katsubushi()}, "a snowflake layout=sonyflake", "issuer: ids of layout sonyflake beside " +
			"katsubushi need a run-ahead of at least 22ms, not 0s"},
		{katsubushi, "a snowflake layout=katsubushi order=strict node=40", "node=40: this daemon's worker ids go up to 40, "},
	} {
		cfg := Config{Own: c.own, Definitions: c.line}
		if strings.Contains(c.line, "strict") {
			cfg.Counters.URL = "etcd://127.0.0.1:1"
		}
		want := fmt.Sprintf("Definitions: %q: %s", c.line, c.want)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if cfg.Own.MaxWorker = 39; strings.Contains(c.line, "strict") && cfg.Validate() != nil {
			t.Error(cfg.Validate())
		}
	}
}

// A setting that is wrong is told by its field, and so is a file that cannot be read, once.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	missing, odd := filepath.Join(dir, "missing"), filepath.Join(dir, "odd")
	if err := os.WriteFile(odd, []byte("a odd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := Lanes{Layout: generator.Katsubushi(), RunAhead: time.Second, MaxWorker: 1}
	fields := func(err error) (all string) {
		for _, p := range problem.Of(err) {
			all += p.Field + " "
		}
		return all
	}
	for _, c := range []struct {
		c                Config
		validates, reads string
	}{
		{Config{}, "", ""},
		{Config{MaxWait: time.Minute}, "", ""},
		{Config{MaxWait: -1, Definitions: "a odd"}, "MaxWait Definitions ", ""},
		{Config{MaxWait: time.Minute + 1, Counters: stores.Counters{URL: "odd://h"}}, "Counters.URL MaxWait ", ""},
		{Config{DefinitionsFile: missing, Counters: stores.Counters{URL: "redis://h:1", PasswordFile: missing}}, "",
			"Counters.PasswordFile DefinitionsFile "},
		{Config{DefinitionsFile: odd}, "", "DefinitionsFile "},
	} {
		c.c.Own = own
		if got := fields(c.c.Validate()); got != c.validates {
			t.Errorf("%+v: Validate blames %s", c.c, got)
		}
		if got := fields(c.c.ReadSecrets()); c.validates == "" && got != c.reads {
			t.Errorf("%+v: ReadSecrets blames %s", c.c, got)
		}
	}
	c := Config{Own: own, DefinitionsFile: odd, Definitions: "b sequence", Counters: stores.Counters{URL: "etcd://h:1"}}
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if flag, file := c.DeclaresStrict(); flag || file || c.ReadSecrets() != nil || os.Remove(odd) != nil ||
		c.ReadSecrets() != nil { // it was empty, and is not read again
		t.Error(flag, file, c.ReadSecrets())
	}
	c.text = []byte(strictLine + "\nu uuid7")
	if flag, file := c.DeclaresStrict(); flag || !file || len(c.Defined()) != 3 {
		t.Error(flag, file, c.Defined())
	}
	c.Definitions, c.text = "u uuid7;"+strictLine, nil
	if flag, file := c.DeclaresStrict(); !flag || !file {
		t.Error(flag, file)
	}
	if c.Own.Layout = (generator.Layout{}); c.Validate() != nil {
		t.Error("what does not fit a layout that is wrong was told:", c.Validate())
	}
	if flag, _ := c.DeclaresStrict(); flag {
		t.Error("declared by what nobody can read")
	}
}

// A directory by default that cannot be used stops a room only if it declares a sequence, or if worker ids are recorded
// there too: it is not served from anywhere else, and nobody can create one there.
func TestSequencesInAnUnusableDirectoryByDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(file, "sub")
	for lines, opens := range map[string]bool{"": true, "u7 uuid7": true, "orders sequence; u7 uuid7": false} {
		c := Config{
			Counters: stores.Counters{Dir: dir, DirByDefault: true}, Definitions: lines, MaxWait: time.Second,
			Own: Lanes{Layout: generator.Katsubushi(), RunAhead: time.Second, MaxWorker: 1, NoDirectory: true},
		}
		n, log := closed(t, c), new(logbook)
		log.of(n)
		err := n.Open()
		if opens != (err == nil) || err != nil && !strings.Contains(err.Error(), "name orders: counter store: ") {
			t.Errorf("%q: %v", lines, err)
		}
		const warning = "WARN sequences cannot be recorded in the state directory by default"
		if text := log.take(); strings.Count(text, warning) != 1 {
			t.Error(text)
		}
		_, err = n.Sequences()
		if !errors.As(err, new(stores.Conflict)) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%q: to create one: %v", lines, err)
		}
		if _, err := n.Users(); err == nil || !strings.Contains(err.Error(), "users: ") {
			t.Errorf("%q: users: %v", lines, err)
		}
		n.Stop()
		for _, change := range []func(){func() { c.Own.NoDirectory = false }, func() { c.Counters.DirByDefault = false }} {
			if change(); refused(t, c) == nil {
				t.Errorf("%q: it opens although a setting names the directory", lines)
			}
		}
	}
}

// A sequence that only an operator has created is served, from the start or within about a second; until
// then its name stands for the default kind, as that of any other key.
func TestSequencesThatOnlyTheStoreKnows(t *testing.T) {
	settings, admin := files(t)
	record(t, admin, counter.Sequence("before"), counter.Sequence("17"))
	log := new(logbook)
	c := Config{Counters: settings, MaxWait: patience, Definitions: "u7 uuid7"}
	n := room(t, c, log.of)
	if got := n.next(t, "before"); got != "1" {
		t.Errorf("the first value is %s", got)
	}
	record(t, admin, counter.Sequence("after"), counter.Sequence("u7")) // served as another kind: it stays what it is
	childprocess.Until(t, "what was created is served", func() bool { return n.next(t, "after") == "1" })
	if s, _ := n.sequences.keeper.Status("after"); s.Block < 100 {
		t.Errorf("%+v", s)
	}
	if got := n.next(t, "u7"); len(got) != 36 {
		t.Errorf("u7 has become a sequence: %s", got)
	}
	text := "\n"
	childprocess.Until(t, "the log tells", func() bool {
		text += log.take() + "\n"
		return strings.Contains(text, "\nINFO name definition=before sequence start=1 from=the counter store") &&
			strings.Contains(text, "\nWARN a sequence in the counter store is not served error=the name \"17\"") &&
			strings.Contains(text, "\nERROR a sequence that was created is not served error=\"u7 sequence start=1\": the name "+
				"is served as \"u7 uuid7\"")
	})
	c.Definitions = "u7 uuid7; before sequence step=2; after sequence"
	var different *kinds.DifferentError
	if err := refused(t, c); !errors.As(err, &different) ||
		!strings.Contains(err.Error(), `"u7 uuid7" is not what is recorded, "u7 sequence start=1"`) {
		t.Errorf("u7 is recorded as a sequence, and declared as another kind: %v", err)
	}
	c.Definitions = "before sequence step=2"
	if err := refused(t, c); !errors.As(err, &different) || !strings.HasPrefix(err.Error(), "name before: ") {
		t.Errorf("another definition is recorded: %v", err)
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
	c := Config{Counters: settings, MaxWait: patience,
		Definitions: "directory sequence; later sequence; lock sequence; healthy sequence"}
	n := room(t, c)
	for name, why := range map[string]string{
		"directory": "no plain file", "later": "another version", "lock": "a symbolic link", "healthy": "1", "id": "",
	} {
		if got := n.next(t, name); !strings.Contains(got, why) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, "later.sequence")); err != nil || string(now) != string(text) {
		t.Errorf("the record of a later version was written over: %v", err)
	}
	c.Definitions = "later uuid7"
	if err := refused(t, c); err == nil || !strings.Contains(err.Error(), `"later uuid7": a sequence of that name is `+
		`recorded: `) {
		t.Error(err)
	}
}

// A record that is damaged, and one of another machine: both names are refused, also if only the store knows
// them, and all else is served. Only a raise makes them usable, while the room is open.
func TestRecordsThatCannotBeUsed(t *testing.T) {
	settings, admin := files(t)
	evens := counter.Definition{Name: "evens", Start: 1, Step: 2, Offset: 2, Max: counter.MaxValue}
	record(t, admin, counter.Sequence("damaged"), evens, counter.Sequence("healthy"))
	copied, err := os.ReadFile("../../counter/file/testdata/golden.sequence") // of another machine
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"damaged": make([]byte, 8192), "evens": []byte("nonsense"), "shop.orders%3A{eu}": copied,
	} {
		if err := os.WriteFile(filepath.Join(settings.Dir, "sequences", name+".sequence"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const foreign = "shop.orders:{eu}"
	log := new(logbook)
	n := room(t, Config{Counters: settings, MaxWait: patience, Definitions: "damaged sequence"}, log.of)
	for name, why := range map[string]string{
		"damaged": "the record is damaged", "evens": "the record is damaged", foreign: "written on another machine",
		"healthy": "1", "id": "", "other": "",
	} {
		if got := n.next(t, name); !strings.Contains(got, why) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if text := log.take(); strings.Count(text, "the records of sequences cannot be used") != 1 ||
		!strings.Contains(text, "count=3") {
		t.Error(text)
	}
	ready := func() (names string) {
		n.Metrics(func(f figure.Figure) {
			if f.Stat == "ready" && f.Value == true {
				names += f.Labels[1] + " "
			}
		})
		return names
	}
	if got := ready(); got != "healthy " {
		t.Errorf("metrics have ready: %s", got)
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
		"damaged": n.Served("damaged"), "evens": kinds.Declared(evens), foreign: {},
	} {
		if err := raise(name, def); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	childprocess.Until(t, "all are ready", func() bool { return len(strings.Fields(ready())) == 4 })
	for name, want := range map[string]uint64{"damaged": 20001, "evens": 20002, foreign: 20001} {
		if v := n.number(t, name); v != want {
			t.Errorf("%s: %d, want %d", name, v, want)
		}
	}
	if len(n.Catalog.Names()) != 4 {
		t.Error("a name is there twice")
	}
	childprocess.Until(t, "the log says so", func() bool { return strings.Contains(log.take(), "can be used again") })
}

// A file that is not right changes nothing; of one that is, the names that are new are served.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a uuid7\n")
	log := new(logbook)
	n := room(t, Config{Definitions: "f ulid", DefinitionsFile: file}, log.of)
	lengths := func() (got string) {
		for _, key := range strings.Fields("a b c f") {
			got += fmt.Sprint(len(n.next(t, key)), " ")
		}
		return got
	}
	const gone = "WARN a name is no longer in the file: it is served until the daemon stops name="
	for _, step := range []struct{ text, err, log, lengths string }{
		{"a uuid7\nb objectid\n", "<nil>", "INFO name definition=b objectid", "36 24 19 26 "},
		{"b uuid4\na uuid7\nc ulid\nx\nc uuid4\n",
			`line 1: "b uuid4" is not what is served as "b objectid": to change it, restart the daemon` + "\n" +
				`line 4: "x": a kind must follow the name: snowflake, sequence, uuid4, uuid7, ulid, objectid allowed` + "\n" +
				`line 5: "c" is declared already, by line 3`, "", "36 24 19 26 "},
		{"f uuid4\n", `line 1: "f uuid4" is not what is served as "f ulid": to change it, restart the daemon` + "\n" +
			`line 1: "f" is declared already, by "f ulid"`, "", "36 24 19 26 "},
		{"d sequence\n", "line 1: " + stores.ErrNoPlace.Error(), "", "36 24 19 26 "},
		{"", "<nil>", gone + "a\n" + gone + "b", "36 24 19 26 "},
		{"c ulid # again\n", "<nil>", gone + "a\n" + gone + "b\nINFO name definition=c ulid", "36 24 26 26 "},
	} {
		write(step.text)
		if err := fmt.Sprint(n.Reload()); err != step.err {
			t.Errorf("%q: %q\nwant %q", step.text, err, step.err)
		}
		if got := log.take(); got != step.log {
			t.Errorf("%q is logged as\n%s\nwant\n%s", step.text, got, step.log)
		}
		if got := lengths(); got != step.lengths {
			t.Errorf("after %q the ids have the lengths %s, want %s", step.text, got, step.lengths)
		}
	}
	os.Remove(file)
	if err := n.Reload(); !errors.Is(err, os.ErrNotExist) || lengths() != "36 24 26 26 " {
		t.Error(err)
	}
	var all []string
	for _, g := range n.Catalog.Names() {
		all = append(all, g.String())
	}
	if !slices.Equal(all, []string{"f ulid", "a uuid7", "b objectid", "c ulid"}) {
		t.Errorf("%q", all)
	}
	if err := room(t, Config{}).Reload(); err != nil {
		t.Error("without a file:", err)
	}
}
