package page

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// listed returns the names that a query gets, two at once, and what is said of them.
func listed(v *View, query string) (names []string, l listing) {
	q, _ := url.ParseQuery(query)
	l = v.lists(q, 2)
	for _, n := range l.names {
		names = append(names, n.Name)
	}
	return names, l
}

// TestNamesAreFound by a part of the name or the kind, in the order that was asked for, page by page. What cannot be
// read counts as left out.
func TestNamesAreFound(t *testing.T) {
	ending := &Sequence{Order: "free", DaysLeft: 3}
	v := View{Lately: time.Minute, Names: []Name{
		{Name: "a", Kind: "uuid7", NameCounts: NameCounts{Issued: 9}},
		{Name: "B", Kind: "sequence", Sequence: ending, Lately: NameCounts{Issued: 7, Answers: 2, Took: 3 * time.Second}},
		{Name: "c", Kind: "ulid", Refusal: "no", Lately: NameCounts{Issued: 8}},
		{Name: "d", Kind: "sequence", Sequence: &Sequence{Order: "strict"},
			Lately: NameCounts{Refused: 1, Answers: 9, Took: 4 * time.Second}},
		{Name: "e", Kind: "sequence", Refusal: "it has ended", Over: true, Sequence: new(Sequence)},
	}}
	find := func(query string) string {
		names, l := listed(&v, query)
		return strings.Join(names, " ") + " " + l.says(len(v.Names))
	}
	steps.Run(t, "testdata/names.txt", func(*testing.T) steps.Calls { return steps.Calls{"find": find} })
	_, l := listed(&v, "q="+strings.Repeat("%c3%a9", 99))
	if len(l.search) > maxSearch || strings.ContainsRune(l.search, '\uFFFD') {
		t.Errorf("%q was searched for", l.search)
	}
	_, l = listed(&v, "q=e%26<&sort=rate&page=2&id=7")
	if l.link(-1) != "" || l.link(1) != "" {
		t.Error("one page leads to others")
	}
	_, l = listed(&v, "q=e&sort=rate&page=2")
	if before, after := l.link(-1), l.link(1); before != "?page=1&q=e&sort=rate#names" || after != "" {
		t.Errorf("the second page of 3 names leads to %q and %q", before, after)
	}
}

// TestNameHistory: counts grow since a minute ago, or since the first sample; a new name's since it is there, and one
// whose counts begin anew has not fallen.
func TestNameHistory(t *testing.T) {
	var h NameHistory
	names := func(n uint64) []Name {
		return []Name{{NameCounts: NameCounts{n, 2 * n, 3 * n, time.Duration(4 * n), 5}}, {NameCounts: NameCounts{Issued: 5}}}
	}
	slowest := []time.Duration{9, 1, 2, 8, 3, 1, 0, 7, 1}
	list := names(1)
	if ago := h.Lately(noon, list); ago != 0 || list[0].Lately != (NameCounts{}) {
		t.Errorf("without a sample: %v, %+v", ago, list[0].Lately)
	}
	for i := range 9 {
		h.add(noon.Add(time.Duration(i)*nameEvery), func(list []NameCounts) []NameCounts {
			if len(list) != 0 {
				t.Error("old counts are kept")
			}
			return append(list, NameCounts{uint64(100 * i), uint64(200 * i), uint64(300 * i), time.Duration(400 * i),
				slowest[i]})
		})
		list := names(uint64(100*i + 7))
		back := min(i, nameSamples-1)
		grown := uint64(100*back + 7)
		ago := h.Lately(noon.Add(time.Duration(i)*nameEvery+time.Second), list)
		want := NameCounts{grown, 2 * grown, 3 * grown, time.Duration(4 * grown), 5}
		for _, d := range slowest[i-back+1 : i+1] { // that of the oldest sample is from before it
			want.Slowest = max(want.Slowest, d)
		}
		if ago != time.Duration(back)*nameEvery+time.Second || list[0].Lately != want || list[1].Lately.Issued != 5 {
			t.Errorf("after %d samples: %v, %+v, %+v, want %+v", i+1, ago, list[0].Lately, list[1].Lately, want)
		}
	}
	list = names(3)
	if h.Lately(noon, list); list[0].Lately != (NameCounts{Slowest: 7}) {
		t.Errorf("counts that began anew: %+v", list[0].Lately)
	}
}
