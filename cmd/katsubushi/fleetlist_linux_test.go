package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	others "github.com/katsubushi/katsubushi/v3/internal/fleet"
)

// TestTheFleetIsPrinted compares the table, and what a daemon answers, with a file.
func TestTheFleetIsPrinted(t *testing.T) {
	ms := func(d time.Duration) *others.Milliseconds { return (*others.Milliseconds)(&d) }
	three, since := 3, time.Date(2026, 11, 26, 11, 14, 8, 0, time.UTC)
	r := others.Roster{More: 7, Unreadable: 2, Members: []others.Member{
		{Addr: "10.0.0.7:11212", Self: true, State: others.Ready, Workers: []uint64{501, 502}, Version: "3.4.5",
			Left: ms(52 * time.Second), Groups: &three, Since: &since},
		{Addr: "10.0.0.8:11212", State: others.Ready, Workers: []uint64{4}, Version: "3.4.6",
			Ahead: ms(-400 * time.Millisecond), Left: ms(51 * time.Second), Since: &since, Page: "http://10.0.0.8:8081/"},
		{Addr: "10.0.0.9:11212", State: others.NotReady, Version: "3.4.7", Ahead: ms(-70 * time.Second)},
		{Addr: "10.0.0.10:11212", State: "no answer", Workers: []uint64{9}},
		{State: others.NotReady},
	}}
	var b bytes.Buffer
	printFleet(&b, r)
	printFleet(&b, others.Roster{})
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%s\n", text)
	compare(t, "testdata/fleet", b.String())
}
