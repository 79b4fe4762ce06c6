package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runState runs `katsubushi state` with a state directory.
func runState(dir string, args ...string) (code int, stdout, stderr string) {
	var o, e bytes.Buffer
	code = run(append([]string{"state"}, args...), environment("KATSUBUSHI_STATE_DIR", dir), &o, &e)
	return code, o.String(), e.String()
}

func TestProcessStateOfADaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "-worker-id", "7,9", "-state-dir", dir, "-state-any-disk")
	hurry(t, p, 1000)
	p.end(t, syscall.SIGTERM)

	code, out, _ := runState(dir, "show", "-json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) != 2 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	var s shown
	if err := json.Unmarshal([]byte(lines[0]), &s); err != nil || s.WorkerID != 7 || s.Generation == 0 {
		t.Errorf("%+v %v", s, err)
	}
	if mark, err := time.Parse(time.RFC3339, s.Mark); err != nil || time.Since(mark).Abs() > time.Minute {
		t.Errorf("mark %s: %v", s.Mark, err)
	}

	for ahead := 2500 * time.Millisecond; !waitsForItsMark(t, dir, ahead); ahead *= 4 {
		if ahead > 20*time.Second {
			t.Fatal("it never had to wait")
		}
	}
}

// waitsForItsMark starts a daemon whose mark lies ahead: it waits, un-ready, and serves by itself. It
// returns false if the machine was so busy that the mark was reached before.
func waitsForItsMark(t *testing.T, dir string, by time.Duration) bool {
	t.Helper()
	const waits = "the clock has yet to reach the window: ids in "
	ahead := time.Now().Add(by)
	if code, out,
		stderr := runState(dir, "reset", "-worker-id", "7", "-mark", ahead.UTC().Format(time.RFC3339Nano)); code != exitOK ||
		!strings.HasPrefix(out, "WORKER ID") {
		t.Fatalf("exit code %d: %s %s", code, out, stderr)
	}
	p := launch(t, "-worker-id", "7", "-state-dir", dir, "-state-any-disk")
	p.WaitListening(t)
	if now := time.Now(); now.Before(ahead.Add(-1100 * time.Millisecond)) { // the run-ahead, and a little for rounding
		t.Errorf("it serves %v before the mark", ahead.Sub(now))
	}
	before, _, _ := strings.Cut(p.Logged(), `"msg":"listening"`)
	if strings.Contains(before, waits) {
		return true
	}
	p.end(t, syscall.SIGTERM)
	return false
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
