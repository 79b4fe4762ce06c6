package ledger

import (
	"strings"
	"testing"
	"time"
)

func TestNotes(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var n note
	first := n.next("c 1", now)
	if !strings.HasSuffix(first, " c 1") {
		t.Errorf("%q", first)
	}
	for _, c := range []struct {
		after time.Duration
		since string
		due   bool
	}{{9 * time.Second, "c 1", false}, {10 * time.Second, "c 1", true}, {11 * time.Second, "c 1", false},
		{11 * time.Second, "c 2", true}} {
		if text := n.next(c.since, now.Add(c.after)); (text != "") != c.due {
			t.Errorf("after %v, %s: %q", c.after, c.since, text)
		}
	}
	for _, after := range []time.Duration{-time.Minute, time.Minute, 25 * time.Hour} {
		d, since := readNote(first, now.Add(after))
		if since != "c 1" || d.Silent != max(after, 0) || strings.Count(d.Name, "/") != 1 {
			t.Errorf("after %v: %+v, %q", after, d, since)
		}
	}
	if d, since := readNote("nonsense", now); d.Name != "" || since != "" || d.Silent < forgetAfter {
		t.Errorf("%+v, %q", d, since)
	}
}
