package main

import (
	"encoding/json"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// TestLeaseListShowsWhatIsInUse, and what an operator must know; the rest is counted.
func TestLeaseListShowsWhatIsInUse(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	list := []workerid.Lease{
		{Worker: 1},
		{Worker: 2, Using: true, Owner: "a", ExpireAt: at(9), From: at(1)},
		{Worker: 3, Using: true, ExpireAt: at(8)},
		{Worker: 4, Using: true, ExpireAt: at(7)},
		{Worker: 5, Owner: "b", ExpireAt: at(2)}, // it ended without being given back
		{Worker: 6, Using: true, ExpireAt: at(9), Note: "there is no record"},
	}
	shown := func(all bool) string {
		var b strings.Builder
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		printLease(table, inUse(list, all))
		table.Flush()
		return b.String()
	}
	const want = `WORKER ID  STATE      UNTIL                     WINDOW FROM               OWNER
2          held       2026-01-02T03:04:09.000Z  2026-01-02T03:04:01.000Z  a
6          held back  2026-01-02T03:04:09.000Z  -                           there is no record
2 held back, the last until 2026-01-02T03:04:08.000Z; 2 free: -all lists them
`
	if got := shown(false); got != want {
		t.Errorf("%s", got)
	}
	if got := shown(true); strings.Count(got, "\n") != 7 || strings.Contains(got, "-all") ||
		!strings.Contains(got, "\n1          free ") {
		t.Errorf("-all: %s", got)
	}
	list = list[:1]
	if got := shown(false); got != "1 free: -all lists them\n" {
		t.Errorf("%q", got)
	}
	if text, err := json.Marshal(inUse(list, false)); string(text) != "[]" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}
