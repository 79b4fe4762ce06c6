package counter

import (
	"strings"
	"testing"
	"time"
)

func TestNotes(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var n Note
	if n.Written() {
		t.Error("it was not written yet")
	}
	first := n.Next("c 1", now)
	if !strings.HasSuffix(first, " c 1") || !n.Written() {
		t.Errorf("%q", first)
	}
	for _, c := range []struct {
		after time.Duration
		since string
		due   bool
	}{{9 * time.Second, "c 1", false}, {10 * time.Second, "c 1", true}, {11 * time.Second, "c 1", false},
		{11 * time.Second, "c 2", true}} {
		if text := n.Next(c.since, now.Add(c.after)); (text != "") != c.due {
			t.Errorf("after %v, %s: %q", c.after, c.since, text)
		}
	}
	for _, c := range []struct {
		changes        string
		after          time.Duration
		behind, forget int
	}{{"c 1", time.Minute, 0, 0}, {"c 2", time.Minute, 1, 0}, {"c 2", -time.Minute, 1, 0}, {"c 2", 24 * time.Hour, 1, 0},
		{"c 1", 25 * time.Hour, 0, 1}, {"c 2", 25 * time.Hour, 0, 1}} {
		behind, forget := Behind(map[string]string{"k": first}, c.changes, now.Add(c.after))
		if len(behind) != c.behind || len(forget) != c.forget {
			t.Errorf("%+v: %v, %v", c, behind, forget)
		}
		if len(behind) == 1 && (behind[0].Silent != max(c.after, 0) || strings.Count(behind[0].Name, "/") != 1) {
			t.Errorf("%+v: %+v", c, behind)
		}
	}
	if behind, forget := Behind(map[string]string{"k": "nonsense"}, "c", now); len(behind) != 0 || len(forget) != 1 {
		t.Errorf("%v, %v", behind, forget)
	}
}
