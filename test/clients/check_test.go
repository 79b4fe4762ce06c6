//go:build linux

package main

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// id is an id of the default layout made after start.
func id(start time.Time, after time.Duration, worker, sequence uint64) string {
	ms := uint64(start.Add(after).UnixMilli() - epoch)
	return strconv.FormatUint(ms<<(workerBits+sequenceBits)|worker<<sequenceBits|sequence, 10)
}

func TestChecker(t *testing.T) {
	start := time.Now()
	n := func(sequence uint64) string { return id(start, 0, 1, sequence) }
	good := "get " + n(0) + "\nget " + n(1) + "\ngets " + n(2) + " " + n(2) + "\nget " + n(3) + "\nget " + n(4) + "\n" +
		"multi " + n(7) + " " + n(5) + " " + n(6) + "\nversion 1.2.3\n" + "incr 5\nincrby 15 10\nexec " + n(8) +
		" 16\nincr 20\n" +
		"stat pid 7\nstat curr_connections 1\nstat total_connections 1\nstat cmd_get 6\nstat get_hits 8\ngroup settings " +
		"3\nhealth Check/ SERVING\n"

	tests := []struct{ name, change, to, want string }{
		{"all is well", "", "", ""},
		{"an id twice in one set-up", "multi " + n(7), "multi " + n(4), "given before"},
		{"an id of another set-up", n(3), id(start, 0, 1, 99), "given before"},
		{"a smaller id", "get " + n(3), "get " + id(start, -time.Second, 1, 0), "not greater"},
		{"another worker id", n(3), id(start, 0, 2, 3), "worker id 2"},
		{"an id of the past", "get " + n(0), "get " + id(start, -time.Minute, 1, 0), "asked for at"},
		{"an id of the future", n(7), id(start, time.Hour, 1, 7), "asked for at"},
		{"not a number", n(3), "b'1'", "not an id"},
		{"a rounded number", n(3), n(3) + "e3", "not an id"},
		{"a cas that is not the id", "gets " + n(2) + " " + n(2), "gets " + n(2) + " 5", "cas"},
		{"a value of the sequence twice", "incr 20", "incr 16", "had 16 before"},
		{"a range that has values twice", "incrby 15 10", "incrby 14 10", "had 5 before"},
		{"a range of nothing", "incrby 15 10", "incrby 15 0", "number of values"},
		{"a transaction's value twice", " 16\n", " 15\n", "had 15 before"},
		{"a transaction's id twice", "exec " + n(8), "exec " + n(7), "given before"},
		{"no transaction", "exec " + n(8) + " 16\n", "", "no exec"},
		{"no range", "incrby 15 10\n", "", "no incrby"},
		{"too few values", "incr 20\n", "", "no incr"},
		{"a version that clients cannot parse", "1.2.3", "v1.2-dirty", "N.N.N"},
		{"two different versions", "stat pid 7", "stat pid 7\nstat version 9.9.9", "version says"},
		{"no version", "version 1.2.3\n", "", "no version"},
		{"no multi-get", "multi " + n(7) + " " + n(5) + " " + n(6) + "\n", "", "no multi"},
		{"a multi-get that lost values", n(7) + " " + n(5) + " " + n(6), n(7), "format"},
		{"too few gets", "get " + n(0) + "\n", "", "4 gets"},
		{"a statistic missing", "stat cmd_get 6\n", "", "cmd_get is missing"},
		{"a statistic of zero", "cmd_get 6", "cmd_get 0", "cmd_get is"},
		{"an empty group", "group settings 3", "group settings 0", "empty"},
		{"not in service", "/ SERVING", "/ NOT_SERVING", "not well"},
		{"nobody asked for the health", "health Check/ SERVING\n", "", "no health"},
		{"a warning on standard output", "version", "Warning: something\nversion", "format"},
	}
	s := &setup{name: "client", language: "Go", protocol: "text",
		does: "get cas multi incr incrby exec version stats groups health"}
	other, err := strconv.ParseUint(id(start, 0, 1, 99), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := checker{seen: map[uint64]string{other: "somebody else"}}
			_, err := c.check(s, strings.Replace(good, test.change, test.to, 1), start, time.Now())
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && err == nil:
				t.Error("accepted")
			case test.want != "" && !strings.Contains(err.Error(), test.want):
				t.Errorf("refused for another reason: %v", err)
			}
		})
	}
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
