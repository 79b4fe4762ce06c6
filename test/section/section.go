// Package section holds a part of a page of the documentation to what a test says of the program, and
// writes it when it is asked to. So a list of commands or flags has one source, which is the code.
package section

import (
	"os"
	"strings"
	"testing"
)

// Check compares the part of a page that stands between the comment `<!-- NAME: ... -->` and the comment
// `<!-- end of NAME -->` with text, or with update makes it text.
func Check(t testing.TB, page, name, text string, update bool) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, ok := replace(string(b), name, text)
	switch {
	case !ok:
		t.Fatalf("%s has no part %q", page, name)
	case want == string(b):
	case update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the part %q of %s is not what the program says; -update writes it", name, page)
	}
}

// replace returns the page with text as that part; ok is false if there is no such part.
func replace(page, name, text string) (_ string, ok bool) {
	head, rest, begins := strings.Cut(page, "<!-- "+name+": ")
	comment, rest, ends := strings.Cut(rest, " -->\n")
	end := "<!-- end of " + name + " -->"
	_, tail, closes := strings.Cut(rest, end)
	if !begins || !ends || !closes || strings.Contains(comment, "\n") {
		return "", false
	}
	return head + "<!-- " + name + ": " + comment + " -->\n\n" + strings.TrimSpace(text) + "\n\n" + end + tail, true
}
