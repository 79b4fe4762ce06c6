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
	if lines[0] != "katsubushi version: "+version || len(lines) != 5 || lines[3] != "go: "+runtime.Version() {
		t.Errorf("%q", lines)
	}
}

func TestVersionNamesTheCommit(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, c := range []struct {
		info   *debug.BuildInfo
		commit string
		want   string
	}{
		{nil, "", "\ncommit: unknown\ndate: unknown\ngo: unknown\n"},
		{nil, "def", "\ncommit: def\ndate: unknown\ngo: unknown\n"},
		{&debug.BuildInfo{GoVersion: "go1.99"}, "", "\ncommit: unknown\ndate: unknown\ngo: go1.99\n"},
		{&debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{
			setting("vcs.revision", "abc"), setting("vcs.time", "2026-11-22T10:11:12Z"), setting("vcs.modified", "false"),
		}}, "def", "\ncommit: abc\ndate: 2026-11-22T10:11:12Z\ngo: go1.99\n"},
		{&debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{
			setting("vcs.modified", "true"), setting("vcs.revision", "abc"),
		}}, "", "\ncommit: abc, modified\ndate: unknown\ngo: go1.99\n"},
	} {
		if got := describeVersion(c.info, c.commit); got != "katsubushi version: "+version+c.want {
			t.Errorf("%q", got)
		}
	}
}

// TestTheVersionIsTheTags: clients take only N.N.N, and no tag of another form becomes the version.
func TestTheVersionIsTheTags(t *testing.T) {
	for tag, want := range map[string]string{
		"v3.4.5": "3.4.5", "v12.0.10": "12.0.10", "v3.4.5-rc1": "3.4.5", "v3.4.5-rc.1": "3.4.5",
		"": untagged, "(devel)": untagged, "v0.0.0": untagged, "v3.4.5+dirty": untagged,
		"v3.4.6-0.20261122101112-0123456789ab": untagged, "v3.4.5-beta": untagged, "3.4.5": untagged,
	} {
		if got := tagged(tag); got != want {
			t.Errorf("%q: %q, not %q", tag, got, want)
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
