package windows

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// opened returns a Holder that has opened its store, what it logged, and the error.
func opened(t *testing.T, change func(*Config)) (*Holder, string, error) {
	t.Helper()
	var log said
	c := fixed(&log)
	change(&c)
	h := New(c)
	t.Cleanup(func() { h.Stop(true) })
	err := h.Open()
	return h, log.take(), err
}

// TestAStoreWithoutFilesKnowsTheRunAhead: its windows begin above anything that the previous run
// may have issued while running ahead.
func TestAStoreWithoutFilesKnowsTheRunAhead(t *testing.T) {
	const runAhead = 7 * time.Second
	h, log, err := opened(t, func(c *Config) { c.MaxRunAhead = runAhead })
	if err != nil || !strings.Contains(log, noRecord) || h.Record() != "none" {
		t.Fatal(log, err)
	}
	earliest := h.Clock.Now() + runAhead.Milliseconds() + 1
	g, err := h.store.Acquire(t.Context(), workerid.Request{Min: 1, Max: 1})
	if err != nil || g.Lo < earliest || g.Lo > h.Clock.Now()+runAhead.Milliseconds()+1 {
		t.Errorf("from %d on, not from %d: %v", g.Lo, earliest, err)
	}
}

// The layout's ticks may be longer than what a state file normally reserves. The first window must
// hold a whole tick.
func TestTheStateFileIsToldTheTick(t *testing.T) {
	t.Parallel()
	l := generator.Katsubushi()
	l.Name, l.Unit = "minutes", 60_000
	h, _, err := opened(t, func(c *Config) { c.Layout, c.StateDir = l, t.TempDir() })
	if err != nil || h.Record() != "state_dir" {
		t.Fatal(h.Record(), err)
	}
	began := h.Clock.Now()
	g, err := h.store.Acquire(t.Context(), workerid.Request{Owner: "x", Min: 1, Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	if g.Hi-began < l.Unit {
		t.Errorf("the window reaches only %v ahead", time.Duration(g.Hi-began)*time.Millisecond)
	}
	if got, want := h.c.Reserve(), time.Minute-time.Millisecond+2*time.Second; got != want {
		t.Errorf("%v is reserved, not %v", got, want)
	}
}

// TestTheStateDirectoryByDefault: where no record can be kept, the daemon does not start, and names the
// flag for those who want none. It does not ignore an existing record.
func TestTheStateDirectoryByDefault(t *testing.T) {
	const unusable = "the state directory by default cannot be used: "
	const homeless = unusable + "neither XDG_STATE_HOME nor HOME is an absolute path: "
	errAny := errors.New("any error")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "worker-1.state"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	layout := t.TempDir()
	if _, err := static.Reset(layout, 1, 0, generator.Twitter().Fingerprint(), false); err != nil {
		t.Fatal(err)
	}
	used := t.TempDir()
	if _, _, err := opened(t, func(c *Config) { c.StateDir = used }); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "a", "b")
	for _, c := range []struct {
		name, dir string
		named     bool
		want      error  // nil = it starts
		says      string // in the error, or in the log
	}{
		{"a new one", fresh, false, nil, "msg=\"windows are recorded\" state_dir=" + fresh},
		{"a place that cannot be made", filepath.Join(file, "sub"), false, errAny, unusable + file + "/sub: "},
		{"none that could be the default", "", false, errAny, homeless},
		{"none, as was said", "", true, nil, "level=WARN msg=\"" + noRecord},
		{"the same, by name", filepath.Join(file, "sub"), true, errAny, "state directory: "},
		{"a damaged record", damaged, false, static.ErrDamaged, "or none)"},
		{"another layout's", layout, false, workerid.ErrForeignPool, "or none)"},
		{"one in use", used, false, static.ErrInUse, "or none)"},
		{"one in use, by name", used, true, static.ErrInUse, "in use"},
	} {
		_, log, err := opened(t, func(o *Config) { o.StateDir, o.StateDirByDefault = c.dir, !c.named })
		if err != nil {
			log = err.Error()
		}
		if (c.want == nil) != (err == nil) || c.want != errAny && !errors.Is(err, c.want) || !strings.Contains(log, c.says) ||
			strings.Contains(log, unusable) != strings.Contains(c.says, unusable) ||
			strings.Contains(log, unusable) != strings.Contains(log, "; with -state-dir none ") ||
			strings.Contains(log, "or none)") == (c.named || err == nil || strings.Contains(c.says, unusable)) {
			t.Errorf("%s: %v, %s", c.name, err, log)
		}
	}
	if left, err := os.ReadDir(fresh); err != nil || len(left) != 1 || left[0].Name() != "worker-1.lock" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestASuccessorWithoutARecordIsRefused: an upgrade of a daemon that had none says so before anything is
// taken over, and names the flag.
func TestASuccessorWithoutARecordIsRefused(t *testing.T) {
	_, _, err := opened(t, func(c *Config) {
		c.StateDir, c.StateDirByDefault, c.Succeeds = "/proc/none", true, true
	})
	if err == nil || !strings.Contains(err.Error(), "; with -state-dir none ") {
		t.Error(err)
	}
}

// TestAnOrdinalWithoutARecordIsWarnedOf: the next pod of the same number may be on another host.
func TestAnOrdinalWithoutARecordIsWarnedOf(t *testing.T) {
	const warning = "with -worker-id ordinal the next run may be on another host"
	for _, c := range []struct {
		ordinal  bool
		dir      string
		expected bool
	}{{true, "", true}, {false, "", false}, {true, t.TempDir(), false}} {
		_, log, err := opened(t, func(config *Config) { config.Ordinal, config.StateDir = c.ordinal, c.dir })
		if err != nil || strings.Contains(log, warning) != c.expected {
			t.Errorf("%+v: %v\n%s", c, err, log)
		}
	}
}

// TestPositionsOutliveTheProcess: where generators keep them in memory that the next run finds, that one
// goes on at once.
func TestPositionsOutliveTheProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("does not apply: there is no such memory")
	}
	h, log, err := opened(t, func(c *Config) { c.StateDir, c.RuntimeDir = t.TempDir(), t.TempDir() })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "a stalled disk stops ids") { // a RuntimeDir on tmpfs: the generator has its word there
		if h.word(1, h.Clock.Now()) == nil {
			t.Error("a generator has no word in it")
		}
	}
	if h.word(2, h.Clock.Now()) != nil {
		t.Error("another worker id has a word")
	}
	without, _, err := opened(t, func(*Config) {})
	if err != nil || without.word(1, 0) != nil {
		t.Errorf("a store without files has a word, %v", err)
	}
}

// TestMemoryIsNoStateDirectoryByDefault: the default directory is not used if a reboot would erase
// it, whether or not somebody put a record there.
func TestMemoryIsNoStateDirectoryByDefault(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	inMemory := func(c *Config) { c.StateDir, c.StateDirByDefault, c.AnyDisk = dir, true, false }
	if _, log, err := opened(t, inMemory); err == nil || !strings.Contains(err.Error(), "it is on tmpfs") ||
		!strings.Contains(err.Error(), "; with -state-dir none ") {
		t.Errorf("%v: %s", err, log)
	}
	if err := os.WriteFile(filepath.Join(dir, "worker-1.state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened(t, inMemory); err == nil || !strings.Contains(err.Error(), "is on tmpfs") ||
		!strings.Contains(err.Error(), "or none)") {
		t.Errorf("with a record: %v", err)
	}
}
