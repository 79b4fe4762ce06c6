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

func TestProcessADamagedStateFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, stderr := runState(dir, "reset", "-worker-id", "7", "-mark", "now"); code != exitOK {
		t.Fatal(stderr)
	}
	file := filepath.Join(dir, "worker-7.state")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, "-worker-id", "7", "-state-dir", dir, "-state-any-disk")
	<-p.Ended()
	if code := p.ProcessState.ExitCode(); code != exitFailure ||
		!strings.Contains(p.Logged(), "no copy of the record is whole") {
		t.Errorf("exit code %d: %s", code, p.Logged())
	}
	if code, out, _ := runState(dir, "show"); code != exitFailure ||
		!strings.Contains(out, "no copy of the record is whole") {
		t.Errorf("show: exit code %d: %s", code, out)
	}
	if code, _, stderr := runState(dir, "reset", "-worker-id", "7", "-mark", "now"); code != exitOK {
		t.Errorf("reset: exit code %d: %s", code, stderr)
	}
	start(t, "-worker-id", "7", "-state-dir", dir, "-state-any-disk")
}

func TestStateIsUsedRightly(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "the verbs are show, adopt and reset"},
		{[]string{"destroy"}, "the verbs are show, adopt and reset"},
		{[]string{"adopt"}, "-worker-id: one worker id is required"},
		{[]string{"reset", "-worker-id", "1,2", "-mark", "now"}, "-worker-id: one worker id is required"},
		{[]string{"reset", "-worker-id", "1"}, "-mark=: now, Unix milliseconds"},
		{[]string{"reset", "-worker-id", "1", "-mark", "1420070400"}, "2015-01-01T00:00:00Z was probably meant"},
		{[]string{"reset", "-worker-id", "1024", "-mark", "now"}, "-worker-id: 1024: 0 to 1023 allowed in this layout"},
		{[]string{"reset", "-worker-id", "32", "-mark", "now", "-worker-bits", "5"}, "-worker-id: 32: 0 to 31 allowed"},
		{[]string{"show", "all"}, `state show: takes no arguments, not ["all"]`},
		{[]string{"adopt", "-worker-id", "1", "-force"}, "-force: only for reset"},
	} {
		if code, _, stderr := runState(t.TempDir(), c.args...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d: %s", c.args, code, stderr)
		}
	}
	if code, _, stderr := runState(t.TempDir(), "show"); code != exitFailure ||
		!strings.Contains(stderr, "no state file") {
		t.Errorf("an empty directory: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := runState(t.TempDir(), "adopt", "-worker-id", "7"); code != exitFailure ||
		!strings.Contains(stderr, "no state file") {
		t.Errorf("adopting nothing: exit code %d: %s", code, stderr)
	}
}

func TestStateResetTakesTheLastWorkerID(t *testing.T) {
	if code, _, stderr := runState(t.TempDir(), "reset", "-worker-id", "1023", "-mark", "now"); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestStateResetLowersAMarkWithForceOnly(t *testing.T) {
	dir := t.TempDir()
	reset := func(mark string, more ...string) (int, string) {
		code, _, stderr := runState(dir, append([]string{"reset", "-worker-id", "7", "-mark", mark}, more...)...)
		return code, stderr
	}
	marked := func() string {
		_, out, _ := runState(dir, "show", "-json")
		var s shown
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatal(err)
		}
		return s.Mark
	}
	const later, earlier = "2030-01-01T00:00:03.000Z", "2030-01-01T00:00:00.000Z"
	if code, stderr := reset(later, "-force"); code != exitOK || stderr != "" { // there is nothing to lower
		t.Fatal(code, stderr)
	}
	const why = "ids may have been issued up to " + later + ", 3s after " + earlier + ": they would come again"
	if code, stderr := reset(earlier); code != exitFailure || !strings.Contains(stderr, why) ||
		!strings.Contains(stderr, "with -force it is set back by 3s") {
		t.Error(code, stderr)
	}
	if m := marked(); m != later {
		t.Errorf("refused, and yet the mark is %s", m)
	}
	if code, stderr := reset("now"); code != exitFailure || !strings.Contains(stderr, "up to "+later) {
		t.Error("now:", code, stderr)
	}
	if code, stderr := reset(earlier, "-force"); code != exitOK ||
		!strings.Contains(stderr, "-force: the file says that "+why) {
		t.Error(code, stderr)
	}
	if m := marked(); m != earlier {
		t.Errorf("the mark is %s", m)
	}
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
