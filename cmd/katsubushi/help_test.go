package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// output runs a subcommand that must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, variables{}, &stdout, &stderr); code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

func TestEveryFlagHasATopic(t *testing.T) {
	for _, s := range settings(new(options)) {
		if !slices.Contains(topics, s.topic) {
			t.Errorf("-%s has the topic %q", s.name, s.topic)
		}
	}
	if help := output(t, "-help", "all"); strings.Index(help, "  -worker-id") > strings.Index(help, "  -engine") {
		t.Error("-help has flags without a topic, or begins with what few need")
	}
}

// TestTheShortHelp fits on a screen, and has no name that another one has taken over.
func TestTheShortHelp(t *testing.T) {
	help := output(t, "-h")
	if lines := strings.Count(help, "\n"); lines < 24 || lines > 40 {
		t.Errorf("%d lines", lines)
	}
	for line := range strings.Lines(help) {
		if len(line) > 80+len("\n") {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if flags := strings.Count(help, "\n  -"); flags != 20 {
		t.Errorf("%d flags", flags)
	}
	for _, pair := range twins {
		if strings.Contains(help, "  -"+pair.other+" ") {
			t.Errorf("-%s stands for -%s", pair.other, pair.one)
		}
	}
}

// TestTheManualPage has all commands and flags, and no line that the formatter would take for a
// request that it does not know.
func TestTheManualPage(t *testing.T) {
	page := output(t, "man")
	for _, c := range commands() {
		if !strings.Contains(page, "\n.B "+roff(c.name)+"\n") {
			t.Errorf("%s is missing", c.name)
		}
	}
	for _, s := range settings(new(options)) {
		if !strings.Contains(page, "\n.B \\-"+roff(s.name)) {
			t.Errorf("-%s is missing", s.name)
		}
	}
	for line := range strings.Lines(page) {
		if request, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") &&
			!slices.Contains([]string{".TH", ".SH", ".SS", ".TP", ".B", ".I", ".BR", ".RI", ".br"}, request) {
			t.Errorf("%q", line)
		}
	}
	if got := roff(".a-b\\\n−'"); got != `\&.a\-b\e \[u2212]'` {
		t.Errorf("escaped as %q", got)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("the formatter was not asked: there is no groff")
	}
	c := exec.Command(groff, "-man", "-Tascii", "-ww", "-z")
	c.Stdin = strings.NewReader(page)
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v %s", err, out)
	}
}

// TestCompletion asks the shells themselves. A shell that is not installed is not asked.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	for _, shell := range names(shells()) {
		tempfile.Write(t, filepath.Join(dir, shell), output(t, "completion", shell))
	}
	var layouts []string
	for _, l := range generator.Layouts() {
		layouts = append(layouts, l.Name)
	}
	for _, c := range []struct{ words, want string }{
		{"katsubushi che", "check-config"},
		{"katsubushi lease re", "release replicas restored reset-clock"},
		{"katsubushi -redis-p", "-redis-password-file -redis-port"},
		{"katsubushi -loops 2 -redis-p", "-redis-password-file -redis-port"},
		{"katsubushi lease -redis-p", "-redis-password-file"}, // the daemon alone has the other
		{"katsubushi lease init -h", "-how"},
		{"katsubushi upgrade -", "-pid -timeout"},
		{"katsubushi inspect -js", "-json"},
		{"katsubushi man -", ""},
		{"katsubushi --redis-p", "--redis-password-file --redis-port"},
		{"katsubushi upgrade --", "--pid --timeout"},
		{"katsubushi -engine ", "auto uring epoll net"},
		{"katsubushi --engine u", "uring"},
		{"katsubushi -engine = e", "epoll"},
		{"katsubushi -layout =", strings.Join(layouts, " ")},
		{"katsubushi inspect -layout s", "sonyflake"},
		{"katsubushi lease init --how re", "replace repair"},
		{"katsubushi completion ", "bash zsh fish"},
		{"katsubushi name create orders ", "sequence"},
		{"katsubushi inspect ", ""},
	} {
		words := strings.Split(c.words, " ")
		script := `. ` + dir + `/bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _katsubushi; echo ${COMPREPLY[@]}`
		got, err := exec.Command("bash", append([]string{"-c", script, "bash"}, words...)...).CombinedOutput()
		if err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("bash: %q is completed as %q, want %q (%v)", c.words, got, c.want, err)
		}
	}
	for _, shell := range []string{"zsh", "fish"} {
		if path, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed", shell)
		} else if out, err := exec.Command(path, "-n", filepath.Join(dir, shell)).CombinedOutput(); err != nil ||
			len(out) > 0 {
			t.Errorf("%s: %v %s", shell, err, out)
		}
	}
}

// TestHelpAndVersionAreVerbs: they say what the flags say.
func TestHelpAndVersionAreVerbs(t *testing.T) {
	for verb, flag := range map[string]string{"help": "-help", "help all": "-h all", "version": "-version",
		"help lease init": "lease init -h",
		"help version":    "version -h"} {
		if got, want := output(t, strings.Fields(verb)...), output(t, strings.Fields(flag)...); got != want || got == "" {
			t.Errorf("%s prints\n%s\nand %s\n%s", verb, got, flag, want)
		}
	}
	if list := output(t, "help", "-list"); !strings.Contains(list, "\nlease\nlease init\n") {
		t.Error(list)
	}
}
