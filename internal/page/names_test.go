package page

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
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

// TestTroubleIsShown: a name that only refuses, one that has refused lately, and one that has ended.
func TestTroubleIsShown(t *testing.T) {
	v := healthy()
	for i := range 3 * pageOfNames {
		v.Names = append(v.Names, Name{Name: fmt.Sprint("n", i), Kind: "uuid7"})
	}
	v.Names[40] = Name{Name: "closed", Kind: "sequence", Refusal: "sequence closed has ended at 9", Over: true,
		Sequence: &Sequence{Order: "free", Last: 9}, NameCounts: NameCounts{Issued: 9, Refused: 1234}}
	v.Names[50] = Name{Name: "only", Kind: "uuid7", NameCounts: NameCounts{Refused: 77}, Lately: NameCounts{Refused: 76},
		Refusal: "the time field has ended"}
	v.Names[60] = Name{Name: "again", Kind: "uuid7", Lately: NameCounts{Issued: 90, Refused: 3}}
	body := get(v, new(History), "/", browser).Body.String()
	rows := regexp.MustCompile(`<th role="rowheader" scope="row"><span class="state (\w+)">([^<]*)</span>`)
	var got []string
	for _, m := range rows.FindAllStringSubmatch(body, 4) {
		got = append(got, m[1]+" "+m[2])
	}
	if want := []string{"urgent closed", "urgent only", "soon orders", "soon again"}; !slices.Equal(got, want) {
		t.Errorf("%q are first, want %q", got, want)
	}
	for _, accept := range []string{browser, ""} {
		body := get(v, new(History), "/", accept).Body.String()
		for _, want := range []string{"1,234", "77, 76 lately", "has ended at 9", "1.5", "17 ms, max 90 ms"} {
			if !strings.Contains(body, want) {
				t.Errorf("Accept: %q: there is no %q", accept, want)
			}
		}
	}
}

// TestManyNames: the page of a daemon with 10,000 names is as long as that of one with 20, whichever is shown, and
// each name can be reached. That nothing is known of the last minute is no rate of 0.
func TestManyNames(t *testing.T) {
	v := healthy()
	v.Names, v.Lately = nil, 0
	for i := range 10000 {
		v.Names = append(v.Names, Name{Name: fmt.Sprintf("n%04d", i), Kind: "uuid7", Refusal: strings.Repeat("no ", 20)})
	}
	for accept, size := range map[string]int{"": plainNames, browser: pageOfNames} {
		for page, want := range map[string]string{"": "n0000", "&page=2": fmt.Sprintf("n%04d", size),
			"&page=99999": fmt.Sprintf("n%04d", 10000-size), "&q=n7007": "n7007"} {
			body := get(v, new(History), "/?sort=name"+page, accept).Body.String()
			_, rest, _ := strings.Cut(body, "A SECOND")
			if accept != "" {
				_, rest, _ = strings.Cut(body, `id="named"`)
			}
			list := regexp.MustCompile(`n\d{4}`).FindAllString(rest, -1)
			list = slices.DeleteFunc(list, func(s string) bool { return s == "n7007" && page != "&q=n7007" })
			if len(body) > 48<<10 || len(list) == 0 || list[0] != want || len(list) > size {
				t.Errorf("Accept: %q, %s: %d bytes, %d names from %v, want %s", accept, page, len(body), len(list), list[:1], want)
			}
			if !strings.Contains(body, "10,000") || !strings.Contains(rest, "–") {
				t.Errorf("Accept: %q, %s: it does not say of how many, or has a rate", accept, page)
			}
		}
	}
}

// TestFewNamesNeedNoSearch.
func TestFewNamesNeedNoSearch(t *testing.T) {
	for n, want := range map[int]bool{0: false, fewNames: false, fewNames + 1: true} {
		v := healthy()
		v.Names = make([]Name, n)
		body := get(v, new(History), "/", browser).Body.String()
		if strings.Contains(body, `name="q"`) != want {
			t.Errorf("%d names can be searched: %v, want %v", n, !want, want)
		}
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
