package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/control"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// parsedBy returns the settings of a command of a user whose home is /root.
func parsedBy(t *testing.T, args ...string) *parsed {
	t.Helper()
	p, _, err := parse(settings, args, environment("HOME", "/root"), nil)
	if err = errors.Join(append(p.problems, err)...); err != nil {
		t.Fatal(err)
	}
	return p
}

// A command without a directory records where the daemon of its host does, or else where the unit's will.
func TestCommandsFindTheDaemonsDirectory(t *testing.T) {
	const home, unit = "/root/.local/state/katsubushi", "/var/lib/katsubushi"
	packaged := neighbour{pid: 7, place: place{StateDir: unit, SequencesIn: unit}}
	leased := neighbour{pid: 8, place: place{SequencesIn: "/s"}}
	inEtcd := neighbour{pid: 9, place: place{StateDir: "/s", Counters: "etcd://u@h", PasswordFile: "/p"}}
	nowhere := neighbour{pid: 10}
	mute := neighbour{pid: 11, err: errors.New("no room")}
	stopped := neighbour{pid: 12, err: fmt.Errorf("it went away: %w", os.ErrDeadlineExceeded)}
	old := neighbour{pid: 13, err: &control.Refusal{Text: `"where" is not understood: upgrade TIMEOUT is`}}
	const give = ": give -state-dir, or for sequences -counters URL"
	for _, c := range []struct {
		args                   string
		daemons                []neighbour
		unit                   string
		state, counters, warns string // "!" before: a problem
	}{
		{"", nil, "", home, home + "/sequences", ""},
		{"", nil, unit, unit, unit + "/sequences", ""},
		{"", []neighbour{packaged}, "/elsewhere", unit, unit + "/sequences", ""},
		{"", []neighbour{packaged, packaged}, "", unit, unit + "/sequences", ""},
		{"", []neighbour{leased}, unit, home, "/s/sequences", ""},
		{"", []neighbour{inEtcd}, unit, "/s", "etcd://u@h", ""},
		{"", []neighbour{nowhere}, unit, home, "", ""},
		{"show", []neighbour{mute}, unit, unit, unit + "/sequences",
			"process 11 runs and did not say where it records: no room: what follows is of " + unit + ", with sequences in "},
		{"show", []neighbour{old}, "", home, home + "/sequences",
			"process 13 is of an earlier version and does not say where it records: what follows is of " + home},
		{"show", []neighbour{stopped, nowhere}, "", home, "", "what follows is of " + home + ", with sequences in none;"},
		{"", []neighbour{mute}, unit, unit, unit + "/sequences", "!: no room" + give},
		{"", []neighbour{stopped}, "", home, home + "/sequences",
			"!process 12 runs and did not say within 2s where it records" + give},
		{"", []neighbour{packaged, old}, "", unit, unit + "/sequences",
			"!process 13 is of an earlier version and does not say where it records" + give},
		{"-state-dir /mine", []neighbour{old}, unit, "/mine", "/mine/sequences", ""},
		{"", []neighbour{packaged, leased}, unit, home, home + "/sequences",
			"!process 7 in /var/lib/katsubushi/sequences, process 8 in /s/sequences): choose one with -state-dir or -counters"},
		{"-state-dir /mine", []neighbour{packaged, inEtcd}, unit, "/mine", "/mine/sequences", ""},
		{"-counters file", []neighbour{packaged}, "", unit, unit + "/sequences", ""},
		{"-counters file:///mine", []neighbour{packaged, inEtcd}, unit, home, "/mine", ""},
		{"-counters redis://h", []neighbour{packaged, inEtcd}, unit, home, "redis://h", ""},
	} {
		p := parsedBy(t, strings.Fields(c.args)...)
		p.locate(len(p.args) == 0, func() []neighbour { return c.daemons }, func() string { return c.unit })
		said := strings.Join(p.unknown, "")
		if err := errors.Join(p.problems...); err != nil {
			said = "!" + err.Error()
		}
		refused, wanted := strings.HasPrefix(said, "!"), strings.HasPrefix(c.warns, "!")
		if p.StateDir != c.state || p.Counters.Where() != c.counters || (said == "") != (c.warns == "") ||
			!strings.Contains(said, strings.TrimPrefix(c.warns, "!")) || refused != wanted {
			t.Errorf("%q with %v: %s, %s, %q", c.args, c.daemons, p.StateDir, p.Counters.Where(), said)
		}
		wrong := parsedBy(t)
		wrong.problems = []error{errors.New("no such flag")}
		wrong.locate(true, func() []neighbour {
			t.Error("a command with a mistake asks the daemons")
			return nil
		}, nil)
		if want := c.counters == "etcd://u@h"; (p.Counters.PasswordFile == "/p") != want {
			t.Errorf("%q with %v: password file %q", c.args, c.daemons, p.Counters.PasswordFile)
		}
	}
}

func TestStateDirOfTheUnit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		tempfile.Write(t, path, text)
		return path
	}
	ours, none := "../../deploy/katsubushi.service", filepath.Join(dir, "none")
	other := write("other", "[Service]\n#StateDirectory=no\nStateDirectory=ids more\n")
	without := write("without", "[Service]\n")
	for _, c := range []struct {
		user  int
		units []string
		want  string
	}{
		{0, []string{none, ours}, "/var/lib/katsubushi"}, {0, []string{other, ours}, "/var/lib/ids"},
		{0, []string{without, ours}, ""}, {0, []string{none}, ""}, {1000, []string{ours}, ""},
	} {
		if got := stateDirOfUnit(c.user, c.units); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A directory of the same name in a container is another one.
func TestDirectoriesOfAContainer(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	n := neighbour{place: place{StateDir: dir, SequencesIn: dir}}
	if err := n.visible("/"); err != nil {
		t.Error(err)
	}
	if err := n.visible(root); err != nil { // not made yet
		t.Error(err)
	}
	if err := os.MkdirAll(root+dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.visible(root); err == nil || !strings.Contains(err.Error(), "run the command where the daemon runs") {
		t.Error(err)
	}
}
