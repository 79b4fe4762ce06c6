package page

import (
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden with what is shown now")

// noon is when all tests look.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.FixedZone("JST", 9*3600))

// healthy returns a view with which nothing is wrong. No two of its figures are equal.
func healthy() View {
	v := View{
		Now: noon, Started: noon.Add(-26*time.Hour - 3*time.Minute), Host: "tuna", Version: "3.4.5", Engine: "uring",
		Loops: 2,
		Ports: []Port{{"memcached", "[::]:11212"}, {"HTTP", "[::]:8081"}},
		Lanes: []Lane{
			{Worker: 501, HasWorker: true, State: "serving", For: 61 * time.Minute, Left: 52 * time.Second,
				RunAhead: 110 * time.Millisecond},
			{Worker: 502, HasWorker: true, State: "serving", For: 62 * time.Minute, Open: true, Left: 876000 * time.Hour},
			{State: "acquiring", For: 7 * time.Second, Reason: "none is free"},
		},
		Store: Store{
			Kind: "Redis", URL: "redis://10.0.0.5:6379/1?ns=ids",
			Full: time.Minute, Short: 15 * time.Second, MaxSkew: 2 * time.Second,
			ClockOff: 21 * time.Millisecond, Replicas: 3, Needed: 1,
			Facts: []figure.Figure{{Stat: "lease_redis_addr", Value: "10.0.0.5:6379"}},
		},
		RunAhead: time.Second,
		Names: []Name{
			{Name: "orders", Kind: "sequence", NameCounts: NameCounts{71, 9, 12, 3 * time.Second, time.Second},
				Lately:   NameCounts{66, 2, 3, 51 * time.Millisecond, 90 * time.Millisecond},
				Sequence: &Sequence{Order: "free", Last: 1072, Left: 92000, DaysLeft: 1234}},
			{Name: "bills", Kind: "sequence", NameCounts: NameCounts{Issued: 73}, Lately: NameCounts{Issued: 36},
				Sequence: &Sequence{Order: "strict", Last: 74, Left: 1 << 40, DaysLeft: farAway, Leader: "10.0.0.7:11212"}},
			{Name: "sessions", Kind: "uuid7", NameCounts: NameCounts{Issued: 75, Refused: 8}, Lately: NameCounts{Issued: 6}},
		}, Lately: time.Minute,
		Groups: []Group{{Number: 3, Leader: "10.0.0.7:11212", Term: 41},
			{Number: 9, Mine: true, Leader: "10.0.0.8:11212", Term: 42}}, Leading: 6,
		Sample: Sample{At: noon, IDs: 90000, Requests: 40000, Connections: 64,
			Process: Process{CPU: 93 * time.Second, Processors: 16, Memory: 43 << 20, Files: 117, MostFiles: 4096}},
		ConnectionsLimit: 1024, Buffers: 3 << 20, BuffersLimit: 256 << 20, ClockDifference: -7 * time.Millisecond,
		Layout: generator.Katsubushi(), Certificate: noon.Add(90 * 24 * time.Hour),
		Events: []Event{{noon.Add(-time.Second), "ERROR", "a reload failed"},
			{noon.Add(-time.Minute), "INFO", "lease state=serving"}, {noon.Add(-25 * time.Hour), "WARN", "clock was set"}},
		Peers: 8, PeersAsked: 7, Told: 5,
	}
	return v
}

// past is a history up to noon: two minutes in which ids, requests and connections grew, and every
// answer took 30 µs, but for a few.
func past(v *View) *History {
	h, answers := new(History), new(latency.Histogram)
	for i := range 25 {
		s := Sample{
			At: noon.Add(time.Duration(i-24) * Every), Troubles: v.Troubles,
			IDs: v.IDs - uint64(24-i)*1000, Requests: v.Requests - uint64(24-i)*500, Connections: int64(40 + i%8),
			Process: Process{CPU: v.Process.CPU - time.Duration(24-i)*2*time.Second},
		}
		answers.Observe(30*time.Microsecond, 995)
		answers.Observe(4*time.Millisecond, 4)
		answers.Observe(70*time.Millisecond, 1)
		s.Latency = new(latency.Snapshot)
		s.Latency.Add(answers)
		h.add(s)
	}
	v.Latency = new(latency.Snapshot)
	v.Latency.Add(answers)
	return h
}

// get asks a page that shows v.
func get(v View, h *History, target, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	Handler(Config{Read: func() View { return v }, History: h}).ServeHTTP(w, r)
	return w
}

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

// parts are what the golden files leave out: they are files of their own.
var parts = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|data:image[^"]*`)

// TestEveryFigureIsShown compares the page with testdata/*.golden. No two figures of the view are equal,
// so one in the place of another is a difference. After a change, -update writes the files again; read
// the diff.
func TestEveryFigureIsShown(t *testing.T) {
	layoutOfNames := healthy()
	layoutOfNames.Others = []generator.Layout{generator.Layouts()[1]}
	none := View{Now: noon, Started: noon, Layout: generator.Katsubushi(), Store: Store{Kind: noStore}, Stopping: true}
	for name, c := range map[string]struct {
		v              View
		target, accept string
	}{
		"page.html": {healthy(), "/", browser}, "page.txt": {healthy(), "/", "*/*"},
		"live.html":  {healthy(), "/?live=1", browser},
		"id.html":    {layoutOfNames, "/?id=1573304824835870720", browser},
		"id.txt":     {layoutOfNames, "/?id=1573304824835870720", ""},
		"empty.html": {none, "/", browser}, "empty.txt": {none, "/", ""},
	} {
		h := new(History)
		if !strings.HasPrefix(name, "empty") {
			h = past(&c.v)
		}
		got := parts.ReplaceAllString(get(c.v, h, c.target, c.accept).Body.String(), "...")
		got = regexp.MustCompile(`<(section|tr|li|div|figure|header|dl|p|h2|h3|form|footer|svg)\b`).
			ReplaceAllString(got, "\n$0")
		golden(t, name, got)
	}
}

// golden compares a text with a file of testdata, or writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Errorf("%s, line %d:\n%s\nwant\n%s", name, i+1, g[i], w[i])
				break
			}
		}
		if len(g) != len(w) {
			t.Errorf("%s: %d lines, want %d", name, len(g), len(w))
		}
	}
}

// TestEachFieldIsShown: a field of the view that changes changes the page, in both forms. Those that only
// findings read are among the rows of TestFindings.
func TestEachFieldIsShown(t *testing.T) {
	unseen := map[string]bool{
		"RunAhead": true, "Store.MaxSkew": true, "Store.ClockOff": true, "Store.Replicas": true, "Store.Needed": true,
		"Store.Wait": true, "Store.Short": true, "Store.Left": true, "Store.Where": true, "Others": true, "NotReady": true,
		"Closed": true, "Store.Server": true, "Store.URL": true,
		"Names.NameCounts.Answers": true, "Names.NameCounts.Took": true, "Names.Retired": true,
		"Names.NameCounts.Slowest": true, // the last minute's are shown
	}
	base := healthy()
	h := past(&base)
	html, text := get(base, h, "/", browser).Body.String(), get(base, h, "/", "").Body.String()
	seen := 0
	var walk func(name string, v reflect.Value, changed *View)
	walk = func(name string, v reflect.Value, changed *View) {
		if !v.CanSet() {
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch {
		case unseen[name] || strings.HasPrefix(name, "Sample.") || strings.HasPrefix(name, "Layout.Name"):
			return
		case v.Type() == reflect.TypeFor[time.Time]():
			if name == "Now" || name == "Certificate" { // whole days are shown
				v.Set(reflect.ValueOf(old.Interface().(time.Time).Add(-25 * time.Hour)))
			} else {
				v.Set(reflect.ValueOf(old.Interface().(time.Time).Add(-61 * time.Second)))
			}
		case v.Kind() == reflect.String:
			v.SetString(old.String() + "X")
		case v.Kind() == reflect.Bool:
			v.SetBool(!old.Bool())
		case v.CanInt() && v.Type() == reflect.TypeFor[time.Duration]():
			v.SetInt(old.Int() + int64(40*time.Millisecond) + old.Int()/2)
		case v.CanInt():
			v.SetInt(old.Int() + 2<<20)
		case v.CanUint() && v.Type().Bits() == 8:
			v.SetUint(old.Uint() - 1)
		case v.CanUint():
			v.SetUint(old.Uint() + 5)
		case v.CanFloat():
			v.SetFloat(old.Float()/2 + 1)
		case v.Type() == reflect.TypeFor[figure.Figure](): // and its value: TestStoreSays
			walk(name+".Stat", v.FieldByName("Stat"), changed)
			return
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), v.Field(i), changed)
			}
			return
		case v.Kind() == reflect.Slice && v.Len() > 0:
			walk(name, v.Index(0), changed)
			return
		case v.Kind() == reflect.Pointer && !v.IsNil():
			walk(name, v.Elem(), changed)
			return
		default:
			return
		}
		seen++
		if get(*changed, h, "/", browser).Body.String() == html {
			t.Errorf("%s is not in the page", name)
		}
		if get(*changed, h, "/", "").Body.String() == text && name != "Lanes.RunAhead" && name != "Store.Full" &&
			name != "Leading" {
			t.Errorf("%s is not in the plain text", name)
		}
		v.Set(old)
	}
	v := healthy()
	v.Sample = base.Sample
	walk("", reflect.ValueOf(&v).Elem(), &v)
	if seen < 50 {
		t.Errorf("%d fields were changed", seen)
	}
}

// evil is a text that must not reach a browser as it is.
const evil = `<script>alert(1)</script>"><img src=x onerror='alert(2)'>&amp;` + "\x00\x1b[2J\u202e"

// TestNothingShownIsMarkup: every text of the view, and the query, is hostile. None of it is markup in
// the page, or moves the cursor of a terminal.
func TestNothingShownIsMarkup(t *testing.T) {
	v := healthy()
	v.NotReady = "x"
	v.Alarms = []Alarm{{"worker_id", "x"}, {"clock", "x"}}
	v.Names[0].Refusal, v.Lanes[0].Reason, v.Lanes[0].State = "x", "x", "degraded"
	n := 0
	var spoil func(v reflect.Value)
	spoil = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if s := v.String(); s != "degraded" && s != "worker_id" && s != "sequence" {
				v.SetString(evil)
				n++
			}
		case reflect.Struct:
			if v.Type() != reflect.TypeFor[time.Time]() {
				for i := range v.NumField() {
					if v.Type().Field(i).IsExported() {
						spoil(v.Field(i))
					}
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				spoil(v.Index(i))
			}
		case reflect.Pointer:
			if !v.IsNil() {
				spoil(v.Elem())
			}
		}
	}
	spoil(reflect.ValueOf(&v).Elem())
	if n < 30 {
		t.Fatalf("%d texts", n)
	}
	for _, target := range []string{"/", "/?live=1", "/?id=1573304824835870720",
		"/?id=01a200c6-44c0-73c1-aa5f-edcba9876610", "/?id=%3Cscript%3Ealert(1)%3C/script%3E", `/?id="><b>&x=<b>&live=<b>`,
		"/?q=%3Cscript%3E%3Cb%3E&sort=%3Cb%3E&page=%3Cb%3E", "/?q=%22%3E%3Cimg+%00%1b%e2%80%ae"} {
		body := parts.ReplaceAllString(get(v, new(History), target, browser).Body.String(), "")
		for _, bad := range []string{"<script", "<img", "<b>", "alert(1)</", `"><img`, "onerror='", "\x00", "\x1b",
			"\u202e"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s: there is %q", target, bad)
			}
		}
		if got := strings.Count(body, "&lt;script&gt;"); got < 5 {
			t.Errorf("%s: the texts are not there: %d", target, got)
		}
		if text := get(v, new(History), target, "").Body.String(); strings.ContainsAny(text, "\x00\x1b\u202e") {
			t.Errorf("%s: control characters in the plain text", target)
		}
	}
}

// TestEveryCharacterThatMeansSomethingIsEscaped, inside an attribute too.
func TestEveryCharacterThatMeansSomethingIsEscaped(t *testing.T) {
	for in, want := range map[string]string{
		`a<b>&"'`: "a&lt;b&gt;&amp;&#34;&#39;", "né\n\t日": "né  日", "\xff\x7f\u2066": "\uFFFD\uFFFD\uFFFD",
		"redis://ann:secret@host/0 fails": "redis://…@host/0 fails",
		"etcd://u@h,postgres://a:b@c":     "etcd://…@h,postgres://…@c",
		"mail a@b":                        "mail a@b", strings.Repeat("é", maxText+1): strings.Repeat("é", maxText) + "…",
		strings.Repeat("<", 1e6): strings.Repeat("&lt;", maxText) + "…",
	} {
		var w writer
		if w.text(in); string(w.b) != want {
			t.Errorf("%.80q becomes %.80q", in, w.b)
		}
	}
}

// TestPolicy: the browser is told to run and show what is in the document, and nothing else.
func TestPolicy(t *testing.T) {
	w := get(healthy(), new(History), "/", browser)
	body := w.Body.String()
	hash := func(tag string) string {
		_, rest, _ := strings.Cut(body, "<"+tag+">")
		inside, _, ok := strings.Cut(rest, "</"+tag+">")
		if !ok || len(inside) < 500 {
			t.Errorf("%s has %d bytes", tag, len(inside))
		}
		sum := sha256.Sum256([]byte(inside))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	want := http.Header{
		"Content-Security-Policy": {"default-src 'none'; style-src " + hash("style") + "; script-src " + hash("script") +
			"; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
		"Content-Type": {"text/html; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}, "X-Frame-Options": {"DENY"},
		"Referrer-Policy": {"no-referrer"}, "Cache-Control": {"no-store"}, "Vary": {"Accept"},
		"Cross-Origin-Opener-Policy": {"same-origin"}, "Cross-Origin-Resource-Policy": {"same-origin"},
	}
	if got := w.Result().Header; !reflect.DeepEqual(got, want) {
		t.Errorf("header %v, want %v", got, want)
	}
	if found := regexp.MustCompile(`\s(on[a-z]+|style)\s*=`).FindString(parts.ReplaceAllString(body, "")); found != "" {
		t.Errorf("an attribute that the policy forbids: %s", found)
	}
	if found := regexp.MustCompile(`(src|href|action)="(https?:|//|/)[^"]*`).FindString(body); found != "" {
		t.Errorf("it points elsewhere: %s", found)
	}
	if n := strings.Count(body, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	for _, file := range []markup{css, script} {
		if regexp.MustCompile(`url\(|@import|https?:|innerHTML|eval\(`).MatchString(string(file)) {
			t.Error("a file asks for another one, or makes markup")
		}
	}
}

// TestWhoGetsWhat: a browser gets HTML, everybody else text; and nothing of a request comes back.
func TestWhoGetsWhat(t *testing.T) {
	for accept, kind := range map[string]string{
		"": "text/plain; charset=utf-8", "*/*": "text/plain; charset=utf-8", "text/plain": "text/plain; charset=utf-8",
		browser: "text/html; charset=utf-8",
	} {
		w := get(healthy(), new(History), "/", accept)
		if got := w.Result().Header.Get("Content-Type"); got != kind ||
			strings.Contains(w.Body.String(), "<") != strings.Contains(kind, "html") {
			t.Errorf("Accept: %q gets %s", accept, got)
		}
		if w.Result().Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("Accept: %q: a browser may guess", accept)
		}
	}
	r := httptest.NewRequest("GET", "/?id=reflected1&x=reflected2&"+strings.Repeat("y", 100), nil)
	r.Host = "reflected3.example"
	for _, name := range []string{"User-Agent", "Referer", "Cookie", "X-Forwarded-For"} {
		r.Header.Set(name, "reflected4")
	}
	for _, accept := range []string{"", browser} {
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		Handler(Config{Read: healthy, History: new(History)}).ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "reflected") {
			t.Errorf("Accept: %q: a part of the request comes back", accept)
		}
		for name, values := range w.Result().Header {
			if strings.Contains(strings.Join(values, ""), "reflected") {
				t.Errorf("Accept: %q: %s: a part of the request comes back", accept, name)
			}
		}
	}
}

// TestWhatIsRefreshedIsThere: the script finds each part that it refreshes, by its id; and does not
// refresh what somebody types into.
func TestWhatIsRefreshedIsThere(t *testing.T) {
	ids := func(target string) []string {
		body := get(healthy(), new(History), target, browser).Body.String()
		var list []string
		for _, m := range regexp.MustCompile(`id="(\w+)" data-live`).FindAllStringSubmatch(body, -1) {
			list = append(list, m[1])
		}
		return list
	}
	whole, live := ids("/"), ids("/?live=1")
	if strings.Join(whole, " ") != strings.Join(live, " ") || len(live) != 7 {
		t.Errorf("the page has %v, what is refreshed %v", whole, live)
	}
	if body := get(healthy(), new(History), "/?live=1", browser).Body.String(); strings.Contains(body, "<form") ||
		strings.Contains(body, "<style") || strings.Contains(body, "<script") {
		t.Error("more than what changes is sent again")
	}
}

// TestWhatIsLeft in a row of the table.
func TestWhatIsLeft(t *testing.T) {
	for want, q := range map[string]Sequence{
		"–":                      {Left: 5},
		"0 s, 0 values":          {DaysLeft: 1. / (24 * 60 * 60)},
		"1 d 12 h, 2,000 values": {DaysLeft: 1.5, Left: 2000},
		"1 d 12 h":               {DaysLeft: 1.5, Left: 2000, Hidden: true},
		"2.0 d, 5 values":        {DaysLeft: 2, Left: 5},
		"999,999 values":         {DaysLeft: farAway, Left: few - 1},
		"plenty":                 {DaysLeft: farAway, Left: few},
	} {
		if got := q.lasts(); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	if hidden := (&Sequence{DaysLeft: farAway, Left: 3, Hidden: true}).lasts(); hidden != "plenty" {
		t.Errorf("hidden: %q", hidden)
	}
}

// TestStoreSays: what a store says of itself, as people read it; not what is for metrics only, or empty.
func TestStoreSays(t *testing.T) {
	s := Store{Facts: []figure.Figure{
		{Stat: "lease_etcd_addr", Value: "10.0.0.5:2379"}, {Stat: "lease_etcd_epoch", Value: ""},
		{Stat: "lease_etcd_floor_wait_ms", Value: 12345 * time.Microsecond}, {Stat: "lease_etcd_clocks", Value: 3},
		{Metric: "lease_etcd_info", Value: 1},
	}}
	want := []fact{{"etcd addr", "10.0.0.5:2379"}, {"etcd floor wait", "12ms"}, {"etcd clocks", "3"}}
	if got := s.says(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
