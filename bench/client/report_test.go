//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A section takes the place of the one that is there, whichever is longer, and what follows stays. It
// may be missing.
func TestReplace(t *testing.T) {
	s := section{begin: "<!-- x -->\n", end: "<!-- end of x -->\n"}
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	if err := os.WriteFile(path, []byte("head\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, after, want string }{
		{"first\n", "tail\n", "head\n\n<!-- x -->\nfirst\n<!-- end of x -->\n"},
		{"a longer text\nof two lines\n", "", "head\n\n<!-- x -->\na longer text\nof two lines\n<!-- end of x -->\ntail\n"},
		{"short\n", "", "head\n\n<!-- x -->\nshort\n<!-- end of x -->\ntail\n"},
	} {
		if err := replace(path, s, c.text); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if err := os.WriteFile(path, append(got, c.after...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := replace(filepath.Join(t.TempDir(), "none"), s, ""); err == nil {
		t.Error("a file that is not there")
	}
}

// The results have the sections that this program replaces, each once and in order.
func TestSectionsOfTheResults(t *testing.T) {
	for _, s := range sections {
		path := filepath.Join(t.TempDir(), "RESULTS.md")
		before, err := os.ReadFile("../RESULTS.md")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, before, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := replace(path, s, ""); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(after) >= len(before) {
			t.Errorf("%s: no such section in RESULTS.md", s.name)
		}
	}
}
