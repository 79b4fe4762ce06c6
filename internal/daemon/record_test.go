package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// opened returns a daemon that has opened its store, what it logged, and the error.
func opened(t *testing.T, change func(*Config)) (*Daemon, string, error) {
	t.Helper()
	var log strings.Builder
	d := &Daemon{clock: clock.New(), c: Config{
		Log: slog.New(slog.NewTextHandler(&log, nil)), Layout: generator.Katsubushi(), WorkerIDs: []uint64{1},
		MaxRunAhead: time.Second, AnyDisk: true,
	}}
	change(&d.c)
	err := d.openStore()
	if err == nil {
		t.Cleanup(func() { d.store.Close() })
	}
	return d, log.String(), err
}

// TestAStoreWithoutFilesKnowsTheRunAhead: its windows begin above anything that the previous run
// may have issued while running ahead.
func TestAStoreWithoutFilesKnowsTheRunAhead(t *testing.T) {
	const runAhead = 7 * time.Second
	d, log, err := opened(t, func(c *Config) { c.MaxRunAhead = runAhead })
	if err != nil || !strings.Contains(log, noRecord) {
		t.Fatal(log, err)
	}
	earliest := d.clock.Now() + runAhead.Milliseconds() + 1
	g, err := d.store.Acquire(t.Context(), workerid.Request{Min: 1, Max: 1})
	if err != nil || g.Lo < earliest || g.Lo > d.clock.Now()+runAhead.Milliseconds()+1 {
		t.Errorf("from %d on, not from %d: %v", g.Lo, earliest, err)
	}
}

// TestTheStateDirectoryByDefault: where no record can be kept, the daemon does not start, and names the
// flag for those who want none. It does not ignore an existing record.
func TestTheStateDirectoryByDefault(t *testing.T) {
	const unusable = "the state directory by default cannot be used: "
	const homeless = unusable + "neither XDG_STATE_HOME nor HOME is an absolute path: "
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
		c.StateDir, c.StateDirByDefault, c.Inherited = "/proc/none", true, &Inherited{From: new(upgrade.Origin)}
	})
	if err == nil || !strings.Contains(err.Error(), "; with -state-dir none ") {
		t.Error(err)
	}
}

var errAny = errors.New("any error")

// TestADirectoryInUse: a second daemon on a state directory ends with an error.
func TestADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	c := testConfig()
	c.StateDir, c.AnyDisk, c.RuntimeDir = dir, true, t.TempDir()
	first, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.store.Close()
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the second daemon: %v", err)
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
