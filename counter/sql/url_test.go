package sql

import (
	"os"
	"strings"
	"testing"
)

// The docs have the statements that errors print.
func TestTablesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/SEQUENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"postgres://ids@db/app", "mysql://ids@db/app"} {
		target, err := Config{URL: url}.parse()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n"+target.createTable()+"\n") {
			t.Errorf("not in the docs:\n%s", target.createTable())
		}
	}
}
