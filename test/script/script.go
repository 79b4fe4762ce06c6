// Package script plays tests that are files: what is done, and what comes of it.
//
//	== a name             a section, in which all begins anew
//	# a comment
//	words of a command    what is done; each package's tests know their own
//		the answer          what came of it, behind a tab
//	until a command       it is done again and again until that is the answer
//
// With -update-scripts the answers are written: read the difference.
package script

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update-scripts", false, "write what comes of the scripts now")

// Do carries out one command, and returns what came of it, in any number of lines.
type Do func(words []string) string

var entries = regexp.MustCompile(`(?m)^(?:[^\t\n].*)?\n(?:\t.*\n)*`)

// patience is how long an answer of until may take, which only what is broken does.
const patience = time.Minute

// Run plays a file. section sets each section up, and calls play once, or skips it.
func Run(t *testing.T, path string, section func(t *testing.T, play func(Do))) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split("\n"+string(text), "\n== ")
	now := strings.TrimPrefix(parts[0], "\n")
	for _, part := range parts[1:] {
		name, body, _ := strings.Cut(part, "\n")
		now += "\n== " + name + "\n"
		played := body // by a section that is skipped
		t.Run(name, func(t *testing.T) {
			called := false
			section(t, func(do Do) { called, played = true, strings.TrimSuffix(play(t, body+"\n", do), "\n") })
			if !called {
				t.Error("nobody played it")
			}
		})
		now += played
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, []byte(strings.TrimRight(strings.TrimLeft(now, "\n"), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// play carries out commands, and returns them with their answers.
func play(t *testing.T, text string, do Do) (now string) {
	t.Helper()
	for _, entry := range entries.FindAllString(text, -1) {
		line, want, _ := strings.Cut(entry, "\n")
		if line == "" || line[0] == '#' {
			now += entry
			continue
		}
		command, until := strings.CutPrefix(line, "until ")
		got, began := answer(do, command), time.Now()
		for until && got != want && time.Since(began) < patience && !(*update && time.Since(began) > patience/2) {
			time.Sleep(10 * time.Millisecond)
			got = answer(do, command)
		}
		if got != want && !*update {
			t.Errorf("%s\n%s  want\n%s", line, got, want)
		}
		now += line + "\n" + got
	}
	return now
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

func answer(do Do, command string) (lines string) {
	for line := range strings.Lines(do(strings.Fields(command))) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			lines += fmt.Sprintf("\t%s\n", line)
		}
	}
	return lines
}
