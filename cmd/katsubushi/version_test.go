package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	var stdout bytes.Buffer
	if code := run([]string{"-version"}, environment(), &stdout, nil); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(stdout.String(), "\n")
	if lines[0] != "katsubushi version: "+version || len(lines) != 4 || lines[2] != "go: "+runtime.Version() {
		t.Errorf("%q", lines)
	}
}

func TestVersionNamesTheCommit(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "\ncommit: unknown\ngo: unknown\n"},
		{&debug.BuildInfo{GoVersion: "go1.99"}, "\ncommit: unknown\ngo: go1.99\n"},
		{&debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{
			setting("vcs.revision", "abc"), setting("vcs.modified", "false"),
		}}, "\ncommit: abc\ngo: go1.99\n"},
		{&debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{
			setting("vcs.modified", "true"), setting("vcs.revision", "abc"),
		}}, "\ncommit: abc, modified\ngo: go1.99\n"},
	} {
		if got := describeVersion(c.info); got != "katsubushi version: "+version+c.want {
			t.Errorf("%q", got)
		}
	}
}

// TestModulePathHasTheMajorVersion: a tag v3.x.y of a module without /v3 in its path could not be
// fetched.
func TestModulePathHasTheMajorVersion(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	major, _, _ := strings.Cut(version, ".")
	if got := filepath.Base(strings.TrimSpace(string(out))); got != "v"+major {
		t.Errorf("the module's path ends in %s, and the version is %s", got, version)
	}
}
