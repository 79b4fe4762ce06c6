//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	tableBegin = "<!-- table: written by go run ./test/clients -table -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// rewriteTable replaces what stands between the two marks in a Markdown file by a table of the
// results.
func rewriteTable(file string, results []result) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(content), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no table marks", file)
	}
	var b strings.Builder
	b.WriteString("| client | version | language | protocol | set-up |\n|---|---|---|---|---|\n")
	for _, r := range results {
		verdict := map[string]string{"FAIL": "**fails**; ", "SKIP": "**not run**; "}[r.verdict]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s%s |\n",
			r.setup.name, r.version, r.setup.language, r.setup.protocol, verdict, r.setup.hint)
	}
	return os.WriteFile(file, []byte(before+tableBegin+b.String()+tableEnd+after), 0o644)
}
