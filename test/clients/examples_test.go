//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestExamples runs the programs of examples/ whose libraries are installed: always those that need
// none. make test-examples installs the others first.
func TestExamples(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRunner(root, t.TempDir(), options{timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.launcher.stop()
	for i := range examples {
		s := &examples[i]
		t.Run(s.name, func(t *testing.T) {
			if s.needs != "here" && os.Getenv("KATSUBUSHI_REQUIRE_EXAMPLES") != "1" {
				if strings.HasPrefix(s.needs, "npm ") || strings.Contains(s.needs, "jdk") {
					t.Skip("make test-examples runs it: it needs ", s.needs)
				}
				for _, name := range aptNames(s) {
					if debianVersion(name) == "" {
						t.Skip(name, " is not installed: make test-examples does that")
					}
				}
			}
			if res := r.try(t.Context(), s); res.verdict != "PASS" {
				t.Error(res.text)
			}
		})
	}
}

// TestEveryExampleIsRun: each folder of examples is one that is run, and README.md names it.
func TestEveryExampleIsRun(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	for i := range examples {
		run[strings.TrimPrefix(examples[i].name, "examples/")] = true
	}
	n := 0
	for _, f := range folders {
		if !f.IsDir() || f.Name() == "orm" { // test/orm runs that one
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "examples", f.Name(), "main_test.go")); err != nil { // it has no test
			n++
			if !run[f.Name()] {
				t.Errorf("nothing runs examples/%s", f.Name())
			}
		}
		if !strings.Contains(string(text), "| ["+f.Name()+"]("+f.Name()+"/") {
			t.Errorf("README.md does not name %s", f.Name())
		}
	}
	if n != len(examples) {
		t.Errorf("%d folders, and %d examples are run", n, len(examples))
	}
}
