package main

import (
	"os"
	"strings"
	"testing"
)

// docsSQL returns the SQL of the docs that has a tag.
func docsSQL(t *testing.T, tag string) string {
	t.Helper()
	for _, page := range []string{"SEQUENCES.md", "MIGRATING.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		_, sql, ok := strings.Cut(string(text), "```sql "+tag+"\n")
		if sql, _, end := strings.Cut(sql, "```"); ok && end {
			return sql
		}
	}
	t.Fatalf("no SQL %s in the docs", tag)
	return ""
}
