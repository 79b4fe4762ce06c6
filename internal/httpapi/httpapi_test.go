package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// fixture answers ids 100, 101, ... until refuse is set.
type fixture struct {
	next   uint64
	refuse error
	counts Counters
}

func (f *fixture) handler() http.Handler {
	return newHandler(Config{
		Mint: func(n int) ([]uint64, error) {
			if f.refuse != nil {
				return nil, f.refuse
			}
			var ids []uint64
			for range n {
				ids = append(ids, 1<<62+f.next)
				f.next++
			}
			return ids, nil
		},
		Stats:    func() []Stat { return []Stat{{"pid", 7}, {"version", "1.2.3"}, {"aged", 0.5}} },
		Ready:    func() error { return f.refuse },
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") }),
		Counters: &f.counts,
	})
}

func (f *fixture) get(t *testing.T, method, target, accept string) (status int, header http.Header, body string) {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	f.handler().ServeHTTP(w, r)
	return w.Code, w.Result().Header, w.Body.String()
}

func TestAnswers(t *testing.T) {
	const json = "application/json"
	for _, c := range []struct {
		method, target, accept string
		status                 int
		kind, body             string
	}{
		{"GET", "/id", "", 200, "text/plain", "4611686018427387904"},
		{"GET", "/id", json, 200, json, `{"id":"4611686018427387904"}`},
		{"GET", "/ids", "", 200, "text/plain", "4611686018427387904"},
		{"GET", "/ids?n=3", "text/html, application/json", 200, json, `{"ids":["4611686018427387904","4611686018427387905","4611686018427387906"]}` + "\n"},
		{"GET", "/ids?n=2", "", 200, "text/plain", "4611686018427387904\n4611686018427387905"},
		{"GET", "/ids?n=0", "", 400, "text/plain; charset=utf-8", "n=\"0\": 1 to 1000 allowed\n"},
		{"GET", "/ids?n=1001", "", 400, "text/plain; charset=utf-8", "n=\"1001\": 1 to 1000 allowed\n"},
		{"GET", "/ids?n=many", "", 400, "text/plain; charset=utf-8", "n=\"many\": 1 to 1000 allowed\n"},
		{"GET", "/stats", "", 200, json, "{\n  \"pid\": 7,\n  \"version\": \"1.2.3\",\n  \"aged\": 0.5\n}\n"},
		{"GET", "/healthz", "", 200, "text/plain; charset=utf-8", "ok\n"},
		{"GET", "/readyz", "", 200, "text/plain; charset=utf-8", "ready\n"},
		{"GET", "/metrics", "", 200, "text/plain; charset=utf-8", "metrics"},
		{"POST", "/id", "", 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
		{"GET", "/nowhere", "", 404, "text/plain; charset=utf-8", "404 page not found\n"},
	} {
		status, header, body := new(fixture).get(t, c.method, c.target, c.accept)
		if kind := header.Get("Content-Type"); status != c.status || kind != c.kind || body != c.body {
			t.Errorf("%s %s (%s): %d %q %q", c.method, c.target, c.accept, status, kind, body)
		}
	}
}

func TestRefusalIsUnavailableWithTheReason(t *testing.T) {
	f := &fixture{refuse: errors.New("no worker id yet")}
	for _, target := range []string{"/id", "/ids?n=5", "/readyz"} {
		status, header, body := f.get(t, "GET", target, "")
		if status != 503 || header.Get("Retry-After") != "1" || body != "no worker id yet\n" {
			t.Errorf("%s: %d %q %q", target, status, header, body)
		}
	}
	if status, _, _ := f.get(t, "GET", "/healthz", ""); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	if f.counts.Requests.Load() != 2 || f.counts.Refused.Load() != 6 || f.counts.IDs.Load() != 0 {
		t.Errorf("counted %d requests, %d refused, %d ids", f.counts.Requests.Load(), f.counts.Refused.Load(), f.counts.IDs.Load())
	}
}

// TestABodyIsNotTakenIn: a form of any size would be, into memory and then into temporary files.
func TestABodyIsNotTakenIn(t *testing.T) {
	r := httptest.NewRequest("GET", "/ids", strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n2\r\n--x--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	w := httptest.NewRecorder()
	new(fixture).handler().ServeHTTP(w, r)
	if left, err := io.ReadAll(r.Body); len(left) == 0 || err != nil || w.Body.String() != "4611686018427387904" {
		t.Errorf("answered %q, and left %q of the body, %v", w.Body, left, err)
	}
}

func TestDebugServerServesOnlyWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct{ pprof, stats bool }{{true, false}, {false, true}, {true, true}} {
		h := NewDebugServer(c.pprof, c.stats).Handler
		for target, want := range map[string]bool{"/debug/pprof/cmdline": c.pprof, "/debug/stats": c.stats} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
			if (w.Code == 200) != want {
				t.Errorf("%+v %s: %d", c, target, w.Code)
			}
		}
	}
}

func TestRuntimeStatsHaveTheNamesOfTheLibraryThatKayacUses(t *testing.T) {
	h := NewDebugServer(false, true).Handler
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/debug/stats", nil))
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(`time go_version go_os go_arch cpu_num goroutine_num gomaxprocs cgo_call_num memory_alloc memory_total_alloc
		memory_sys memory_lookups memory_mallocs memory_frees memory_stack heap_alloc heap_sys heap_idle heap_inuse heap_released
		heap_objects gc_next gc_last gc_num gc_per_second gc_pause_per_second gc_pause`) {
		if _, ok := got[name]; !ok {
			t.Errorf("no %s", name)
		}
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("more than the library has: %v", got)
	}
}
