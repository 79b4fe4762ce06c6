package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// configured parses the flags and variables beside a -config file with this text.
func configured(t *testing.T, text string, env variables, args ...string) (*parsed, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, _, err := parse(settings, append([]string{"-config", path}, args...), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, path
}

func TestAFileOfSettings(t *testing.T) {
	p, _ := configured(t, "# ours\n\nworker-id 7\n  port=1234\nbind = 127.0.0.1\nenable-stats\r\n"+
		"generator orders sequence start=1\ngenerator sessions uuid7\nlog-level\tdebug\nmargin 2s\n",
		variables{"KATSUBUSHI_PORT": "1235", "LOG_LEVEL": "warn"}, "-log-level", "error", "-state-dir", t.TempDir(),
		"-state-any-disk")
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	if len(p.WorkerIDs) != 1 || p.WorkerIDs[0] != 7 || p.Bind != "127.0.0.1" || !p.EnableStats ||
		p.Definitions != "orders sequence start=1\nsessions uuid7" {
		t.Errorf("from the file: %v %q %v %q", p.WorkerIDs, p.Bind, p.EnableStats, p.Definitions)
	}
	if p.Port != 1235 || p.logLevel.String() != "ERROR" {
		t.Errorf("port %d, level %v: the environment beats the file, a flag both", p.Port, p.logLevel)
	}
	if p, _, _ := parse(settings, nil, variables{"KATSUBUSHI_CONFIG": filepath.Join(t.TempDir(), "none")},
		nil); len(p.problems) != 1 || !strings.HasPrefix(p.problems[0].Error(), "-config: stat ") {
		t.Errorf("a file that is not there: %v", p.problems)
	}
}

func TestWhatIsWrongInAFileOfSettings(t *testing.T) {
	p, path := configured(t, "worker-id 9999\nnosuch 3\n-port 5\nport 1\nport 2\nconfig other\nlog-level\nloops many\n",
		nil)
	want := []string{
		"line 2: \"nosuch\" is not a flag; it stands without a dash",
		"line 3: \"-port\" is not a flag; it stands without a dash",
		"line 5: port was set above", "line 6: a file cannot name another one", "line 7: log-level has no value",
		"line 8: loops=many: a whole number is allowed", "line 1: worker-id: 9999: 0 to 1023 allowed",
	}
	got := strings.Split(p.validate().Error(), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != path+" "+want[i] {
			t.Fatalf("got\n%s\nwant, with the path,\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// What was probably meant as a comment stays a part of the value, and the daemon says so.
func TestACommentBehindAValueInAFileOfSettings(t *testing.T) {
	p, path := configured(t, "# ours # all\nworker-id 7\nstate-dir /var/lib/ids\t# of ssd 1\nadvertise a#b\n", nil)
	const what = "the # behind its value is a part of the value: a comment stands on a line of its own"
	want := []string{path + " line 3: state-dir: " + what}
	if !slices.Equal(p.unknown, want) || p.StateDir != "/var/lib/ids\t# of ssd 1" {
		t.Errorf("%q, want %q; %q", p.unknown, want, p.StateDir)
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add("worker-id 7\n# x\ngenerator a uuid7\ngenerator = b ulid\n=\nport\n")
	path := filepath.Join(f.TempDir(), "conf")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		values, problems := readConfig(path)
		lines := 0
		for _, v := range values {
			lines += 1 + strings.Count(v.value, "\n")
		}
		for _, line := range strings.Split(text, "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				lines--
			}
		}
		if lines+len(problems) != 0 && len(text) <= maxConfigFile {
			t.Errorf("%d lines are neither a setting nor a problem: %v %v", -lines-len(problems), values, problems)
		}
	})
}

func TestCheckConfig(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"-worker-id 7 -state-dir none", exitOK, "nothing is wrong with these settings\n", ""},
		{"-worker-id 7 -state-dir none -counters etcd://u:hush@h", exitOK, "nothing is wrong with these settings\n",
			"warning: -counters: others may see the password in the URL: -counters-password-file FILE"},
		{"-store etcd://u:hush@h -state-dir none", exitOK, "nothing is wrong with these settings\n",
			"-store-password-file FILE"},
		{"-redis redis://:hush@h -state-dir none", exitOK, "nothing is wrong with these settings\n",
			"-redis-password-file FILE"},
		{"-store etcds://h?ca=/nosuch", exitUsage, "", "-store: open /nosuch"},
		{"-worker-id 7 -state-dir none -counters etcds://h?ca=/nosuch", exitUsage, "", "-counters: open /nosuch"},
		{"-worker-id 7", exitFailure, "", "neither XDG_STATE_HOME nor HOME is an absolute path"},
		{"-worker-id 7 -port x -loops 0", exitUsage, "", "-port=x"},
		{"-worker-id 7 -tls-cert /nosuch -tls-key /nosuch", exitUsage, "", "/nosuch"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"check-config"}, strings.Fields(c.args)...), variables{}, &stdout, &stderr)
		if code != c.code || stdout.String() != c.stdout ||
			!strings.Contains(stderr.String(), c.stderr) || strings.Contains(stderr.String(), "hush") {
			t.Errorf("%s: exit code %d, %q, %q", c.args, code, stdout.String(), stderr.String())
		}
	}
	home := t.TempDir()
	if err := os.WriteFile(home+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{home: exitOK, home + "/file": exitFailure} {
		var stdout, stderr bytes.Buffer
		args, env := []string{"check-config", "-worker-id", "7", "-state-any-disk"}, environment("HOME", dir)
		if code := run(args, env, &stdout, &stderr); code != want {
			t.Errorf("HOME=%s: exit code %d, %q", dir, code, stderr.String())
		}
	}
	if made, err := os.ReadDir(home); err != nil || len(made) != 1 {
		t.Errorf("check-config made %v, %v", made, err)
	}
}
