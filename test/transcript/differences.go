package transcript

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A Class is one of inputs that this server deliberately answers differently from another one. It excuses two answers
// that match Them and Us, to an input that matches In.
type Class struct {
	What, Theirs, Ours string // the row of a table for users
	In, Them, Us       *regexp.Regexp
}

// Differences are those of testdata/differences.classes, where "why" is for who changes one.
func Differences(t testing.TB) (list []Class) {
	t.Helper()
	text, err := os.ReadFile("testdata/differences.classes")
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(text), "\n== ") {
		what, lines, _ := strings.Cut(section, "\n")
		of := map[string]string{}
		for line := range strings.Lines(lines) {
			name, is, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			of[name] = is
		}
		if re := regexp.MustCompile; of["why"] != "" {
			list = append(list, Class{what, of["theirs"], of["ours"], re(of["in"]), re(of["them"]), re(of["us"])})
		}
	}
	return list
}

// Excuse finds the first of the list that excuses two answers, or returns -1.
func Excuse(list []Class, in, them, us string) int {
	for i, d := range list {
		if d.In.MatchString(in) && d.Them.MatchString(them) && d.Us.MatchString(us) {
			return i
		}
	}
	return -1
}

// Table are the differences from another server for users.
func Table(t testing.TB, server string) string {
	table := "| input | " + server + " | katsubushi |\n|---|---|---|\n"
	for _, d := range Differences(t) {
		table += fmt.Sprintf("| %s | %s | %s |\n", d.What, d.Theirs, d.Ours)
	}
	return table
}
