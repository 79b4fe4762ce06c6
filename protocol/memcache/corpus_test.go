package memcache

import (
	"os"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// An input is what one connection sends, to memcached and to this server.
type input struct {
	in    string
	waits bool // memcached discards what follows and says nothing more until the connection ends
}

// corpus reads the inputs of testdata/corpus.inputs.
func corpus(t *testing.T) (c []input) {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.inputs")
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(text), "\n== ") {
		kind, inputs, _ := strings.Cut(strings.TrimRight(section, "\n"), ": ")
		_, inputs, _ = strings.Cut(inputs, "\n")
		for line := range strings.SplitSeq(inputs, "\n") {
			if kind[0] == '#' || strings.HasPrefix(line, "# ") {
				continue
			}
			for _, in := range expand(line) {
				b, err := transcript.Bytes(in)
				if err != nil {
					t.Fatal(err)
				}
				if kind == "lines" {
					b = append(b, "\r\n"...)
				}
				c = append(c, input{string(b), kind == "waits"})
			}
		}
	}
	return c
}

// expand makes of "a<b|c>d" "abd" and "acd".
func expand(line string) (all []string) {
	head, rest, ok := strings.Cut(line, "<")
	if !ok {
		return []string{line}
	}
	some, tail, _ := strings.Cut(rest, ">")
	for one := range strings.SplitSeq(some, "|") {
		for _, end := range expand(tail) {
			all = append(all, head+one+end)
		}
	}
	return all
}
