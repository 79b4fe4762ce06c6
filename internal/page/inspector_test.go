package page

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// TestInspector: ids of every form, as a browser and as curl see them.
func TestInspector(t *testing.T) {
	twitter, _ := generator.LayoutByName("twitter")
	v := healthy()
	v.Others = []generator.Layout{twitter}
	for id, want := range map[string][]string{
		"1573304824835870720": {"snowflake", "2026-11-20 11:51:40.831 UTC",
			"2026-11-20 20:51:40.831 JST (+09:00)", "1 d 15 h ago", "twitter", "2022-09-23 13:34:35.488 UTC"},
		" 1573304824837968385,\n":              {"2026-11-20 11:51:40.831 UTC", "501 (this daemon has it now)"},
		"01a200c6-44c0-73c1-aa5f-edcba9876610": {"uuid7", "2026-11-22 01:02:03.456 UTC", "677", "961"},
		"01M80CCH607GD9FYVJX9GXJCGG":           {"ulid", "2026-11-22 01:02:03.456 UTC", "677", "961"},
		"6b023f0b720f06a5fedcba98":             {"objectid", "2026-11-22 01:02:03.456 UTC", "677", "961"},
		"01234567-89AB-4DEF-BEDC-BA9876543210": {"uuid4", "random"},
		"1072":                                 {"2015-01-01 00:00:00.000 UTC", "1072", "value of the sequence", "orders"},
		"9223372036854775807":                  {"2084-09-06 15:47:35.551 UTC", "in the future"},
		"18446744073709551615":                 {"more bits"},
	} {
		if id == " 1573304824837968385,\n" { // worker id 501
			n, _ := v.Layout.Compose(generator.Parts{Time: noon.UTC(), Worker: 501, Sequence: 9})
			id, want = " "+number(n)+",\n", []string{"2026-11-22 03:00:00.000 UTC", "501 (this daemon has it now)", "9"}
			id = strings.ReplaceAll(strings.TrimSuffix(id, ",\n"), ",", "") + ",\n"
		}
		for _, accept := range []string{"", browser} {
			body := get(v, new(History), "/?id="+url.QueryEscape(id), accept).Body.String()
			for _, w := range want {
				if !strings.Contains(body, w) {
					t.Errorf("%q, Accept: %q: no %q", id, accept, w)
				}
			}
			if text := strings.Trim(id, " ,\n"); accept == browser && !strings.Contains(body, `value="`+text+`"`) {
				t.Errorf("%q is not in the form any more", id)
			}
		}
	}
	if a := inspectText(&v, "1073"); len(a.Values) != 0 {
		t.Errorf("1073 was not issued yet: %v", a.Values)
	}
}

// TestInspectorRefuses: what is no id gets a sentence, and is not shown again.
func TestInspectorRefuses(t *testing.T) {
	for query, want := range map[string]string{
		"id=hello": "This is not an id: a decimal number", "id=-1": "This is not an id",
		"id=18446744073709551616":                  "This is not an id",
		"id=c232ab00-9414-11ec-b3c8-9f6bdeced846":  "This is not a UUID of RFC 9562, version 4 or 7",
		"id=" + strings.Repeat("7", 65):            "it has 65 characters",
		"id=" + strings.Repeat("x", 10_000):        "it is too long",
		"id=%zz":                                   "",
		"id=":                                      "",
		"id=" + url.QueryEscape("<b>7</b>"):        "This is not an id",
		strings.Repeat("a=b&", 1000):               "it is too long",
		"id=" + url.QueryEscape("\x00\x1b[2J\xff"): "This is not an id",
	} {
		for _, accept := range []string{"", browser} {
			w := get(healthy(), new(History), "/?"+query, accept)
			body := w.Body.String()
			if w.Code != 200 || !strings.Contains(body, want) || want == "" && strings.Contains(body, "not an id") {
				t.Errorf("%.40q, Accept: %q: status %d, no %q", query, accept, w.Code, want)
			}
			if accept == browser && !strings.Contains(body, `value=""`) {
				t.Errorf("%.40q is in the form", query)
			}
		}
	}
	v := healthy()
	v.Layout = generator.Layout{Unit: 1, TimeBits: 8, WorkerBits: 31, SequenceBits: 25}
	if a := inspectText(&v, "6b023f0b720f06a5fedcba98"); a.Problem != "This is 31 worker + 25 sequence bits: objectid "+
		"has 54 for both." {
		t.Errorf("%q", a.Problem)
	}
}

// TestBits: the parts of the 64 bits, in the order of the layout.
func TestBits(t *testing.T) {
	for _, name := range []string{"katsubushi", "sonyflake", "node:10,time:42,sequence:11"} {
		l, err := generator.ParseLayout(name)
		if err != nil {
			t.Fatal(err)
		}
		v := healthy()
		v.Layout = l
		id, err := l.Compose(generator.Parts{Time: noon, Worker: 5, Sequence: 3})
		if err != nil {
			t.Fatal(err)
		}
		a := inspectText(&v, strings.ReplaceAll(number(id), ",", ""))
		digits := fmt.Sprintf("%064b", id)
		worker, sequence := fact{"worker", strings.Repeat("0", int(l.WorkerBits)-3) + "101"},
			fact{"sequence", strings.Repeat("0", int(l.SequenceBits)-2) + "11"}
		first := 64 - len(worker.value) - len(sequence.value)
		rest := first - int(l.TimeBits)
		want := []fact{{"rest", digits[:rest]}, {"tick", digits[rest:first]}, worker, sequence}
		switch {
		case l.WorkerLow:
			want[2], want[3] = sequence, worker
		case l.WorkerHigh:
			end := rest + len(worker.value)
			want = []fact{want[0], worker, {"tick", digits[end : end+int(l.TimeBits)]}, sequence}
		}
		if got := a.Readings[0].Bits; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		classes := `class="` + want[2].name + `">` + want[2].value
		if body := get(v, new(History), "/?id="+a.Text, browser).Body.String(); !strings.Contains(body, classes) {
			t.Errorf("%s: the parts have other colours", name)
		}
	}
}
