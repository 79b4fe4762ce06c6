package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/control"
	"github.com/katsubushi/katsubushi/v3/test/steps"
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
	const unit = "/var/lib/katsubushi"
	daemons := map[string]*neighbour{
		"packaged": {pid: 7, place: place{StateDir: unit, SequencesIn: unit}},
		"leased":   {pid: 8, place: place{SequencesIn: "/s"}},
		"inEtcd":   {pid: 9, place: place{StateDir: "/s", Counters: "etcd://u@h", PasswordFile: "/p"}},
		"nowhere":  {pid: 10},
		"mute":     {pid: 11, err: errors.New("no room")},
		"stopped":  {pid: 12, err: fmt.Errorf("it went away: %w", os.ErrDeadlineExceeded)},
		"old":      {pid: 13, err: &control.Refusal{Text: `"where" is not understood: upgrade TIMEOUT is`}},
	}
	locate := func(args, unit string, beside ...*neighbour) (string, error) {
		p := parsedBy(t, strings.Fields(args)...)
		p.locate(len(p.args) == 0, func() (list []neighbour) {
			for _, n := range beside {
				list = append(list, *n)
			}
			return list
		}, func() string { return unit })
		return fmt.Sprintf("%s, sequences in %q %s\n%s", p.StateDir, p.Counters.Where(), p.Counters.PasswordFile,
			strings.Join(p.unknown, "")), errors.Join(p.problems...)
	}
	calls := steps.Calls{"locate": locate, "daemons": daemons}
	steps.Run(t, "testdata/where.txt", func(*testing.T) steps.Calls { return calls })
	wrong := parsedBy(t)
	wrong.problems = []error{errors.New("no such flag")}
	wrong.locate(true, func() []neighbour {
		t.Error("a command with a mistake asks the daemons")
		return nil
	}, nil)
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
