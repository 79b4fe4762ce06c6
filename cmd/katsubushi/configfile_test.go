package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// configured parses the flags and variables beside a -config file with this text.
func configured(t *testing.T, text string, env variables, args ...string) (*parsed, string) {
	t.Helper()
	path := tempfile.Write(t, "conf", text)
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

func FuzzConfigFile(f *testing.F) {
	f.Add("worker-id 7\n# x\ngenerator a uuid7\ngenerator = b ulid\n=\nport\n")
	path := filepath.Join(f.TempDir(), "conf")
	f.Fuzz(func(t *testing.T, text string) {
		tempfile.Write(t, path, text)
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
