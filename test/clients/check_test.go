//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// good is what a set-up prints that does all.
const good = `get 1174109840998404096
get 1174109840998404097
gets 1174109840998404098 1174109840998404098
get 1174109840998404099
get 1174109840998404100
multi 1174109840998404103 1174109840998404101 1174109840998404102
version 1.2.3
incr 5
incrby 15 10
exec 1174109840998404104 16
incr 20
stat pid 7
stat curr_connections 1
stat total_connections 1
stat cmd_get 6
stat get_hits 8
group settings 3
health Check/ SERVING
`

func TestChecker(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_000)
	s := &setup{name: "client", language: "Go", protocol: "text",
		does: "get cas multi incr incrby exec version stats groups health"}
	change := func(from, to string) (string, error) {
		c := checker{seen: map[uint64]string{1174109840998404195: "somebody else"}}
		lines := strings.NewReplacer(`\n`, "\n")
		return c.check(s, strings.Replace(good, lines.Replace(from), lines.Replace(to), 1), start, start)
	}
	steps.Run(t, "testdata/checker.txt", func(*testing.T) steps.Calls { return steps.Calls{"change": change} })
}

// Every set-up has all that the runner and the table need, and no two share a directory.
func TestSetups(t *testing.T) {
	dirs := map[string]string{}
	protocols := map[string]int{}
	for i := range setups {
		s := &setups[i]
		if s.name == "" || s.language == "" || s.needs == "" || s.run == "" || s.hint == "" {
			t.Errorf("%s: a field is empty", s)
		}
		if other, ok := dirs[s.dir()]; ok {
			t.Errorf("%s and %s share the directory %s", s, other, s.dir())
		}
		dirs[s.dir()] = s.String()
		for p := range strings.SplitSeq(s.protocol, ", ") {
			protocols[p]++
		}
		for word := range strings.FieldsSeq(s.does) {
			if !strings.Contains(" get cas multi incr incrby exec version stats groups health ", " "+word+" ") {
				t.Errorf("%s does %q, which is not checked", s, word)
			}
		}
	}
	for _, p := range []string{"text", "meta", "binary", "RESP2", "RESP3", "gRPC"} {
		if protocols[p] == 0 {
			t.Errorf("no set-up speaks %s", p)
		}
	}
}
