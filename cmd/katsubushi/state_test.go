package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runState runs `katsubushi state` with a state directory.
func runState(dir string, args ...string) (code int, stdout, stderr string) {
	var o, e bytes.Buffer
	code = run(append([]string{"state"}, args...), environment("KATSUBUSHI_STATE_DIR", dir), &o, &e)
	return code, o.String(), e.String()
}

// The daemon that runs is asked for its directory, wherever its sequences are recorded.
func TestStateOfADaemonWithCounters(t *testing.T) {
	for _, given := range [][]string{nil, {"-counters", "redis://127.0.0.1:1/0?ns=a"}} {
		p, _, err := parse(settings, given, environment("HOME", t.TempDir()), nil)
		if err != nil {
			t.Fatal(err)
		}
		there := place{StateDir: "/var/lib/ids", SequencesIn: "/var/lib/ids", Counters: "file"}
		p.locateFiles(true, func() []neighbour { return []neighbour{{pid: 7, place: there}} }, func() string { return "" })
		if p.StateDir != there.StateDir || len(p.problems) > 0 {
			t.Errorf("%q: %s, %v", given, p.StateDir, p.problems)
		}
	}
}

// `katsubushi state` looks where the daemon would.
func TestStateOfTheDirectoryByDefault(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "katsubushi")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"reset", "-worker-id", "7", "-mark", "now"}, {"show"}} {
		var o, e bytes.Buffer
		code := run(append([]string{"state"}, args...), environment("XDG_STATE_HOME", home), &o, &e)
		if code != exitOK || !strings.Contains(o.String(), filepath.Join(dir, "worker-7.state")) {
			t.Errorf("%q: exit code %d: %s %s", args, code, &o, &e)
		}
	}
	if code, _, stderr := runState("none", "show"); code != exitUsage ||
		!strings.Contains(stderr, "-state-dir: required") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
