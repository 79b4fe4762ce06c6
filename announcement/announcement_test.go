package announcement

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var whole = Announcement{
	Addr: "[2001:db8::7]:11212", TLS: true, Workers: []uint64{0, 7, 1023}, Ready: true, At: 1795331810123,
	Version:     "3.0.0",
	Fingerprint: "katsubushi:1417392000000/1ms/41.10.12;lease=60000ms;ids=1-1023",
}

// TestTheText: clients in other languages read these names.
func TestTheText(t *testing.T) {
	const text = `{"addr":"[2001:db8::7]:11212","tls":true,"workers":[0,7,1023],"ready":true,"at":1795331810123,` +
		`"version":"3.0.0",` +
		`"fingerprint":"katsubushi:1417392000000/1ms/41.10.12;lease=60000ms;ids=1-1023"}`
	if got := whole.String(); got != text {
		t.Errorf("wrote %s", got)
	}
	if got, err := Parse(text); err != nil || !reflect.DeepEqual(got, whole) {
		t.Errorf("read %+v, %v", got, err)
	}
	if got := (Announcement{}).String(); !strings.Contains(got, `"workers":[]`) {
		t.Errorf("without worker ids it wrote %s", got)
	}
	if _, err := Parse(Announcement{}.String()); err != nil {
		t.Error("an announcement without an address:", err)
	}
	if got, err := Parse(`{"addr":"a:1","later":{"x":[1,2]}}`); err != nil || got.Addr != "a:1" {
		t.Errorf("a field of a later version: %+v, %v", got, err)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	deep := strings.Repeat("[", MaxText/2) + strings.Repeat("]", MaxText/2)
	many := strings.TrimSuffix(strings.Repeat("1,", MaxWorkers+1), ",")
	for _, text := range []string{
		"", "null?", "[]", `"text"`, "{", `{"addr":7}`, `{"addr":"a:1"} {}`, deep, `{"x":` + deep + "}",
		`{"addr":"a"}`, `{"addr":":1"}`, `{"addr":"a:0"}`, `{"addr":"a:65536"}`, `{"addr":"a:memcache"}`, `{"addr":"a b:1"}`,
		`{"addr":"a\nb:1"}`, `{"addr":"` + strings.Repeat("a", MaxAddr) + `:1"}`,
		`{"workers":[-1]}`, `{"workers":[1.5]}`, `{"workers":[99999999999999999999]}`, `{"workers":{}}`,
		`{"workers":[` + many + `]}`,
		`{"at":NaN}`, `{"at":1e999}`, `{"at":-1}`, `{"at":253402300800000}`, `{"at":"now"}`, `{"ready":1}`,
		`{"version":"3\r\n"}`, `{"version":"` + strings.Repeat("3", MaxVersion+1) + `"}`,
		`{"fingerprint":"` + strings.Repeat("3", MaxFingerprint+1) + `"}`, `{"fingerprint":"\u0000"}`,
		`{"addr":"` + strings.Repeat(" ", MaxText) + `"}`,
	} {
		if a, err := Parse(text); err == nil {
			t.Errorf("Parse(%.60q) = %+v", text, a)
		} else if !reflect.DeepEqual(a, Announcement{}) {
			t.Errorf("Parse(%.60q) returned %+v with an error", text, a)
		}
	}
}

func TestTheLatestOfAnAddress(t *testing.T) {
	entry := func(addr string, at int64) string { return Announcement{Addr: addr, At: at}.String() }
	got := Latest(map[string]string{
		"a": entry("h:1", 5), "b": entry("h:1", 7), "c": entry("h:1", 6), "d": entry("h:2", 1), "e": entry("", 1),
		"f": entry("", 2), "g": "rubbish",
	})
	if names := slices.Sorted(maps.Keys(got)); fmt.Sprint(names) != "[b d e f]" {
		t.Errorf("%v remained", names)
	}
	if a := got["d"]; a.Addr != "h:2" || a.At != 1 {
		t.Errorf("d is %+v", a)
	}
}

// TestTheFieldsAreDocumented: docs/DISCOVERY.md has a line for each field, and its example can be read.
func TestTheFieldsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/DISCOVERY.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := range reflect.TypeFor[Announcement]().NumField() {
		if name := reflect.TypeFor[Announcement]().Field(i).Tag.Get("json"); !strings.Contains(text, "\n| `"+name+"` |") {
			t.Errorf("%s is not in the table", name)
		}
	}
	examples := regexp.MustCompile(`(?m)^\{"addr".*\}$`).FindAllString(text, -1)
	if len(examples) == 0 {
		t.Fatal("no example")
	}
	for _, e := range examples {
		if a, err := Parse(e); err != nil || a.String() != e {
			t.Errorf("example %s: %v, %v", e, a, err)
		}
	}
	for _, limit := range []string{"8 KiB"} {
		if !strings.Contains(text, limit) {
			t.Errorf("no word of %s", limit)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole.String())
	f.Add(`{"addr":"a:1","workers":[1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(a.String()); err != nil || again.String() != a.String() {
			t.Errorf("%q was read as %+v, which was read as %+v, %v", text, a, again, err)
		}
	})
}
