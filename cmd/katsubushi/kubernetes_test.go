package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTheOrdinalOfAHost(t *testing.T) {
	for _, c := range []struct {
		host, offset string
		want         uint64
	}{
		{"katsubushi-0", "", 0}, {"katsubushi-17", "", 17}, {"ids-eu-2", "+100", 102},
		{"ids-2.ids.prod.svc.cluster.local", "", 2}, {"a-007", "+0", 7}, {"a-1.b", "", 1},
	} {
		if got, err := ordinalOf(c.host, c.offset); err != nil || got != c.want {
			t.Errorf("%s%s: %d, %v, want %d", c.host, c.offset, got, err, c.want)
		}
	}
	for _, host := range []string{"", "katsubushi", "katsubushi7", "7", "katsubushi-", "katsubushi-7b",
		"katsubushi-4294967296", "katsubushi-+1", "a.b-7", "katsubushi-6f7b9c"} {
		if got, err := ordinalOf(host, ""); err == nil || !strings.Contains(err.Error(), "StatefulSet") {
			t.Errorf("%s: %d, %v", host, got, err)
		}
	}
	for _, offset := range []string{"+", "1", "-1", "+-1", "++1", "+x", "s", "+4294967296"} {
		if got, err := ordinalOf("a-1", offset); err == nil || !strings.Contains(err.Error(), "ordinal+OFFSET") {
			t.Errorf("ordinal%s: %d, %v", offset, got, err)
		}
	}
}

// TestTheOrdinalIsASetting: it depends on this host's name, which is asked for here too.
func TestTheOrdinalIsASetting(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	id, bad := ordinalOf(host, "+3")
	p, _, err := parse(settings, []string{"-worker-id=ordinal+3"}, environment("HOME", "/h"), nil)
	switch {
	case err != nil:
		t.Fatal(err)
	case bad == nil:
		if !slices.Equal(p.WorkerIDs, []uint64{id}) || !p.Ordinal || len(p.problems) > 0 {
			t.Errorf("on %s: %v, %v, %v", host, p.WorkerIDs, p.Ordinal, p.problems)
		}
	default:
		got := complaints(t, []string{"-worker-id=ordinal+3", "-loops=0"})
		if !strings.Contains(got, "-worker-id=ordinal+3: "+bad.Error()+"\n") || !strings.Contains(got, "-loops: 0") ||
			strings.Contains(got, "none given") {
			t.Errorf("on %s: %s", host, got)
		}
	}
	if got := complaints(t, []string{"-worker-id=ordinal3", "-loops=0"}); !strings.Contains(got,
		"ordinal+OFFSET is allowed") {
		t.Error(got)
	}
}

// TestAnOrdinalOfZeroIsAnID: kayac's 0 beside -redis means "not set", an ordinal does not.
func TestAnOrdinalOfZeroIsAnID(t *testing.T) {
	p, _, err := parse(settings, []string{"-redis=redis://h/0"}, environment(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.WorkerIDs, p.Ordinal = []uint64{0}, true
	p.combineStore()
	if err := p.validate(); err == nil || !strings.Contains(err.Error(), "with -redis worker ids are leased, not given") {
		t.Errorf("%v, worker ids %v", err, p.WorkerIDs)
	}
}
