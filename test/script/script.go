// Package script plays tests that are files: what is done, and what comes of it.
//
//	== a name             a section, in which all begins anew
//	# a comment
//	words of a command    what is done; each package's tests know their own
//		the answer          what came of it, behind a tab
//	until a command       it is done again and again until that is the answer
//
// Several kinds of things may play one file, before whose sections "kinds: " stands with their names. Then
// "== a name [file etcd]" is a section of some kinds, and "file etcd | the answer" a line of the answers of some.
//
// With -update-scripts the answers are written: read the difference. Use -p 1 where packages share a file.
package script

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update-scripts", false, "write what comes of the scripts now")

// Do carries out one command, and returns what came of it, in any number of lines.
type Do func(words []string) string

// patience is how long an answer of until may take, which only what is broken does.
const patience = time.Minute

// Run plays a file. section sets each section up, and calls play once, or skips it.
func Run(t *testing.T, path string, section func(t *testing.T, play func(Do))) {
	t.Helper()
	RunAs(t, path, "", section)
}

// RunAs plays the sections of a kind.
func RunAs(t *testing.T, path, kind string, section func(t *testing.T, play func(Do))) {
	t.Helper()
	f := read(t, path)
	t.Cleanup(func() { // when those that are played beside each other have ended, too
		if *update && !t.Failed() {
			write(t, path, kind, f)
		}
	})
	for i, s := range f {
		if i == 0 || kind != "" && !slices.Contains(s.kinds, kind) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			Attempt(t, func() {
				called := false
				section(t, func(do Do) {
					called = true
					s.play(t, kind, do)
				})
				if !called {
					t.Error("nobody played it")
				}
			})
		})
	}
}

// attempts is how often something is begun anew.
const attempts = 10

// An Again is what a Do panics with when a server has said that it stood still in a call: it may have carried it out,
// or not, so that the section begins anew.
type Again struct{ Why string }

// Attempt calls try, and again if it panics with an Again.
func Attempt(t *testing.T, try func()) {
	t.Helper()
	for n := 1; ; n++ {
		again := Again{}
		func() {
			defer func() {
				if p := recover(); p != nil {
					var ok bool
					if again, ok = p.(Again); !ok {
						panic(p)
					}
				}
			}()
			try()
		}()
		if again.Why == "" {
			return
		}
		if t.Logf("attempt %d: %s", n, again.Why); n == attempts {
			t.Fatal("that was the last one")
		}
	}
}

// play carries out the commands of a section.
func (s *section) play(t *testing.T, kind string, do Do) {
	t.Helper()
	for _, e := range s.entries {
		if e.line == "" || e.line[0] == '#' {
			continue
		}
		want := e.of(kind)
		command, until := strings.CutPrefix(e.line, "until ")
		got, began := answer(do, command), time.Now()
		for until && !slices.Equal(got, want) && time.Since(began) < patience &&
			!(*update && time.Since(began) > patience/2) {
			time.Sleep(10 * time.Millisecond)
			got = answer(do, command)
		}
		if e.played, e.got = true, got; !slices.Equal(got, want) && !*update {
			t.Errorf("%s\n\t%s\n  want\n\t%s", e.line, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
}

var logged = regexp.MustCompile(`level=(\w+) (msg=.*)`)

// Logged are the lines that a slog.TextHandler wrote, and how often each, without their times.
func Logged(text string) string {
	times := map[string]int{}
	for _, m := range logged.FindAllStringSubmatch(text, -1) {
		times[m[1]+" "+m[2]]++
	}
	var lines []string
	for _, line := range slices.Sorted(maps.Keys(times)) {
		lines = append(lines, fmt.Sprint(times[line], " ", line))
	}
	return strings.Join(lines, "\n")
}

func answer(do Do, command string) (lines []string) {
	for line := range strings.Lines(do(strings.Fields(command))) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
