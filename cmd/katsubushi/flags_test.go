package main

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func environment(pairs ...string) variables {
	env := variables{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// settingsOf reads settings in which nothing is wrong.
func settingsOf(t *testing.T, flags, env string) *parsed {
	t.Helper()
	var args []string
	for _, flag := range strings.Split(" "+flags, " -")[1:] {
		args = append(args, "-"+flag)
	}
	set := variables{}
	for _, pair := range strings.Split(env, ", ") {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	p, _, err := parse(settings, args, set, nil)
	if err != nil || len(p.problems) > 0 {
		t.Errorf("%s %s: %v %v", flags, env, err, p.problems)
	}
	return p
}

// TestDescriptorsAreLeft for the admin port, and for HTTP.
func TestDescriptorsAreLeft(t *testing.T) {
	for _, port := range []string{"-admin-port=8082", "-http-port=8081"} {
		p := settingsOf(t, port, "")
		if p.MaxConnections+p.Services.Descriptors(p.MaxConnections) > max(openFiles()-64, 80) ||
			p.AdminPort > 0 && p.Services.Descriptors(100) != 48+64 {
			t.Errorf("%s: %d connections, and %d descriptors", port, p.MaxConnections, p.Services.Descriptors(p.MaxConnections))
		}
	}
}

// TestAnEmptyFlagIsNotSet: whichever it is, the environment counts, then the default; nothing
// complains of a value that nobody gave.
func TestAnEmptyFlagIsNotSet(t *testing.T) {
	t.Parallel()
	for _, list := range []func(*options) []setting{settings, runSettings} {
		set := environment()
		var empty, later []string
		for _, s := range list(new(options)) {
			set["KATSUBUSHI_"+strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))] = "17"
			empty = append(empty, "-"+s.name+"=")
			later = append(later, "-"+s.name+"=18", "-"+s.name+"=") // the last one counts
		}
		for _, env := range []variables{environment(), set} {
			want, _, _ := parse(list, []string{}, env, nil)
			for _, args := range [][]string{empty, later} {
				if got, _, err := parse(list, args, env, nil); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%q: %v\n%+v, without them\n%+v", args, err, got, want)
				}
			}
		}
	}
}

// complaints are what is printed about settings that cannot be right.
func complaints(t *testing.T, args []string, env ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	if code := run(args, environment(env...), &stderr, &stderr); code != exitUsage {
		t.Errorf("%q: exit code %d", args, code)
	}
	return stderr.String()
}

// What only the counter store knows of timestamps is told with the exit code of a wrong setting.
func TestTimestampsThatAreNotWhatIsRecorded(t *testing.T) {
	place := []string{"-state-dir", t.TempDir(), "-state-any-disk"}
	define := func(name, node string) string {
		return name + " snowflake layout=katsubushi order=strict node=" + node
	}
	output(t, append([]string{"name", "create", define("c", "1000")}, place...)...)
	got := complaints(t, append([]string{"-worker-id=1", "-claim=off", "-port=0", "-bind=127.0.0.1", "-http-port=0",
		"-generator", define("d", "1000"), "-generator", define("c", "1001")}, place...))
	if !strings.Contains(got, "node=1000 of layout katsubushi is that of c") ||
		!strings.Contains(got, "is not what is recorded") {
		t.Error(got)
	}
}

func TestWhyItCannotStartIsLoggedAtEveryLevel(t *testing.T) {
	for _, level := range []string{"info", "fatal", "panic"} {
		var stderr bytes.Buffer
		code := run([]string{"-worker-id=1", "-sock=/nowhere/at/all", "-log-level", level}, environment(), nil, &stderr)
		if code != exitFailure ||
			!strings.Contains(stderr.String(), `level=FATAL msg="cannot start" error="listen unix /nowhere/at/all`) {
			t.Errorf("%s: exit code %d: %s", level, code, &stderr)
		}
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-help", "all"}, environment(), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	columns := map[int]int{} // in which the texts of the subcommands begin
	for _, m := range regexp.MustCompile(`(?m)^  katsubushi .*?  +`).FindAllString(stdout.String(), -1) {
		columns[len(m)]++
	}
	if lines := strings.Count(stdout.String(), "\n  katsubushi "); len(columns) != 1 || lines != len(commands())+1 {
		t.Errorf("%d subcommands; how many of their texts begin in which columns: %v", lines, columns)
	}
	var names []string
	for _, s := range settings(new(options)) {
		if slices.Contains(names, s.name) {
			t.Errorf("-%s stands twice in the table", s.name)
		}
		names = append(names, s.name)
		if !strings.Contains(stdout.String(), "  -"+s.name) {
			t.Errorf("no -%s", s.name)
		}
	}
}

// TestALongSocketPath: the kernel's limit is told as a setting.
func TestALongSocketPath(t *testing.T) {
	most := len(syscall.RawSockaddrUnix{}.Path) - 1
	for n, wrong := range map[int]bool{most: false, most + 1: true} {
		got := complaints(t, []string{"-worker-id=1", "-loops=0", "-sock", "/" + strings.Repeat("s", n-1)})
		if strings.Contains(got,
			fmt.Sprintf("-sock: a path of %d bytes: a unix socket's has at most %d\n", n, most)) != wrong {
			t.Errorf("a path of %d bytes: %s", n, got)
		}
	}
}

// TestDescriptorsForSequences: sequences in files, declared or found in the directory, lower the default of
// -max-connections by one each, and those with order=strict by another. Where there are too few descriptors for the
// latter, an error says how many are needed.
func TestDescriptorsForSequences(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	if code := run([]string{"name", "create", "found sequence", "-state-dir", dir, "-state-any-disk"}, variables{},
		io.Discard, &said); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	connections := func(args ...string) int {
		t.Helper()
		p, _, err := parse(settings, append([]string{"-worker-id", "1", "-state-dir", dir, "-state-any-disk"}, args...),
			variables{}, nil)
		if err == nil {
			err = p.validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.MaxConnections
	}
	all := openFiles() - otherFiles - 64 // the page's 32, and those it refuses
	declared := []string{"-generator", "found sequence", "-generator", "a sequence", "-generator", "b sequence",
		"-generator", "c uuid7"}
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, all - 1},
		{declared, all - 3},
		{append(declared, "-generator", "d sequence order=strict"), all - 5},
		{append(declared, "-max-connections", "100"), 100},
		{[]string{"-counters", "etcd://127.0.0.1:1"}, all},
	} {
		if got := connections(c.args...); got != c.want {
			t.Errorf("%q: %d connections, want %d", c.args, got, c.want)
		}
	}
	if err := checkDescriptors(256, 688, 256+688+otherFiles+fewConnections); err != nil {
		t.Error(err)
	}
	want := "700 sequences in files with order=strict hold a descriptor each, and this process may have 1024 in all: " +
		"raise that limit to 1036 or more"
	if err := checkDescriptors(256, 700, 1024); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err := checkDescriptors(10, 0, 10); err != nil { // they share what there is
		t.Error(err)
	}
}
