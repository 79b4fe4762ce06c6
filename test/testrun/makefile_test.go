package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhatMakeNamesIsThere: the tests that `make unit` leaves out with -race are those of packages in which it runs
// them without, and those that it runs over every engine exist.
func TestWhatMakeNamesIsThere(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindSubmatch(text)
		if m == nil {
			t.Fatal("no " + name)
		}
		return strings.ReplaceAll(string(m[1]), "$$", "$")
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	left, packages := regexp.MustCompile(setting("ONE_GOROUTINE")), strings.Fields(setting("OF_ONE_GOROUTINE"))
	if strings.Contains(string(text), "\nunit-net: ALSO = |$(ONE_GOROUTINE)\n") {
		packages = append(packages, "./cmd/katsubushi")
	}
	again, renamed := regexp.MustCompile(setting("EVERY_ENGINE")), strings.Count(setting("EVERY_ENGINE"), "|")+1
	found := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "bin" {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		dir, _ := filepath.Rel("../..", filepath.Dir(path))
		for _, m := range declared.FindAllSubmatch(source, -1) {
			name := string(m[1])
			if dir == "cmd/katsubushi" && again.MatchString(name) {
				renamed--
			}
			if !left.MatchString(name) {
				continue
			}
			found[name] = true
			if !slices.Contains(packages, "./"+dir) {
				t.Errorf("%s of %s is left out with -race, and nothing runs it without", name, dir)
			}
		}
		return err
	})
	if n := strings.Count(setting("ONE_GOROUTINE"), "|") + 1; err != nil || len(found) != n {
		t.Errorf("%d of %d tests are there: %v, %v", len(found), n, found, err)
	}
	if renamed != 0 {
		t.Errorf("%d tests that run over every engine are not there", renamed)
	}
}

// TestSoakRunsWhatOnlyItRuns: a test that is skipped elsewhere is among those that `make soak` names.
func TestSoakRunsWhatOnlyItRuns(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	lines := regexp.MustCompile(`(?m)^\tKATSUBUSHI_SOAK=1 .*-run '(.*)' \./cmd/katsubushi`)
	for _, m := range lines.FindAllSubmatch(text, -1) {
		named = append(named, string(m[1]))
	}
	run, found := regexp.MustCompile(strings.Join(named, "|")), 0
	only := regexp.MustCompile(`(?m)^func (Test\w+)\(.*\n\tsoakOnly\(t\)$`)
	files, _ := filepath.Glob("../../cmd/katsubushi/*_test.go")
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range only.FindAllSubmatch(source, -1) {
			found++
			if !run.Match(m[1]) {
				t.Errorf("make soak does not run %s", m[1])
			}
		}
	}
	if found == 0 || len(named) == 0 {
		t.Errorf("%d such tests, %d lines of soak", found, len(named))
	}
}
