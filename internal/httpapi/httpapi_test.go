package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// fixture answers ids 100, 101, ... until refuse is set.
type fixture struct {
	mu     sync.Mutex
	next   uint64
	refuse error
	notes  []string // of readiness
	keys   []string // asked for
	counts Counters
	work   chan struct{} // if not nil, ids are issued once it is closed, and readiness is known
	login  Login
}

func (f *fixture) handler() http.Handler { return newHandler(f.config()) }

func (f *fixture) config() Config {
	return Config{
		Batch: func(ctx context.Context, key []byte, n int) ([]id.Run, error) {
			if string(key) == "gone" { // until the client is
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if bytes.HasPrefix(key, []byte("un")) {
				return nil, id.UnknownName(key)
			}
			if f.work != nil {
				<-f.work
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.keys = append(f.keys, string(key))
			if f.refuse != nil {
				return nil, f.refuse
			}
			var runs []id.Run
			for n > 0 { // of two ids at most
				r := id.Run{First: 1<<62 + f.next, Stride: 1, N: min(n, 2)}
				runs = append(runs, r)
				f.next += uint64(r.N)
				n -= r.N
			}
			return runs, nil
		},
		Declared: func(name []byte) bool { return bytes.HasPrefix(name, []byte("ord")) },
		Stats: func() []figure.Figure {
			return []figure.Figure{{Stat: "pid", Value: 7}, {Stat: "version", Value: "1.2.3"}, {Stat: "aged", Value: 0.5}}
		},
		Notes: func() []string { return f.notes },
		Ready: func() error {
			if f.work != nil {
				<-f.work
			}
			return f.refuse
		},
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") }),
		Page:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") }),
		Counters: &f.counts,
		Login:    f.login,
	}
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
		{"GET", "/ids?n=3", "text/html, application/json", 200, json,
			`{"ids":["4611686018427387904","4611686018427387905","4611686018427387906"]}` + "\n"},
		{"GET", "/ids?n=2", "", 200, "text/plain", "4611686018427387904\n4611686018427387905"},
		{"GET", "/ids?n=0", "", 400, "text/plain; charset=utf-8", "n=\"0\": 1 to 1000 allowed\n"},
		{"GET", "/ids?n=1001", "", 400, "text/plain; charset=utf-8", "n=\"1001\": 1 to 1000 allowed\n"},
		{"GET", "/ids?n=many", "", 400, "text/plain; charset=utf-8", "n=\"many\": 1 to 1000 allowed\n"},
		{"GET", "/id?name=orders", "", 400, "text/plain; charset=utf-8", "the name goes into the path: /id/x\n"},
		{"GET", "/id?key=", "", 400, "text/plain; charset=utf-8", "the name goes into the path: /id/x\n"},
		{"GET", "/ids?n=2&generator=x", json, 400, "text/plain; charset=utf-8", "the name goes into the path: /ids/x\n"},
		{"GET", "/id?other=x", "", 200, "text/plain", "4611686018427387904"},
		{"GET", "/stats", "", 200, json, "{\n  \"pid\": 7,\n  \"version\": \"1.2.3\",\n  \"aged\": 0.5\n}\n"},
		{"GET", "/healthz", "", 200, "text/plain; charset=utf-8", "ok\n"},
		{"GET", "/readyz", "", 200, "text/plain; charset=utf-8", "ready\n"},
		{"GET", "/metrics", "", 200, "text/plain; charset=utf-8", "metrics"},
		{"GET", "/", "", 200, "text/plain; charset=utf-8", "page"},
		{"GET", "/?id=7", "", 200, "text/plain; charset=utf-8", "page"},
		{"HEAD", "/", "", 200, "text/plain; charset=utf-8", "page"}, // the server leaves the body out
		{"POST", "/", "", 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
		{"DELETE", "/?id=7", "", 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
		{"GET", "/index.html", "", 404, "text/plain; charset=utf-8", "404 page not found\n"},
		{"POST", "/id", "", 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
		{"GET", "/nowhere", "", 404, "text/plain; charset=utf-8", "404 page not found\n"},
	} {
		status, header, body := new(fixture).get(t, c.method, c.target, c.accept)
		if kind := header.Get("Content-Type"); status != c.status || kind != c.kind || body != c.body {
			t.Errorf("%s %s (%s): %d %q %q", c.method, c.target, c.accept, status, kind, body)
		}
	}
}

// TestHeadTakesNoValue: and is answered as /readyz is.
func TestHeadTakesNoValue(t *testing.T) {
	for _, path := range []string{"/id", "/id/orders", "/ids?n=3", "/api/segment/get/orders"} {
		f := new(fixture)
		ready, _, _ := f.get(t, "HEAD", path, "")
		f.refuse = errors.New("not ready")
		if refused, _, _ := f.get(t, "HEAD", path, ""); ready != 200 || refused != 503 || len(f.keys) > 0 {
			t.Errorf("HEAD %s: %d, %d, issued for %q", path, ready, refused, f.keys)
		}
	}
}

func TestNamesInPaths(t *testing.T) {
	const json = "application/json"
	for _, c := range []struct {
		target, accept string
		status         int
		body, key      string
	}{
		{"/id/orders", "", 200, "4611686018427387904", "orders"},
		{"/id/{a}:b.c_d-9", json, 200, `{"id":"4611686018427387904"}`, "{a}:b.c_d-9"},
		{"/id/%7Ba%7D", "", 200, "4611686018427387904", "{a}"},
		{"/ids/orders", "", 200, "4611686018427387904", "orders"},
		{"/ids/orders?n=3", json, 200, `{"ids":["4611686018427387904","4611686018427387905","4611686018427387906"]}` + "\n",
			"orders"},
		{"/ids/orders?n=0", "", 400, "n=\"0\": 1 to 1000 allowed\n", ""},
		{"/api/segment/get/orders", "", 200, "4611686018427387904", "orders"},
		{"/api/segment/get/orders", json, 200, "4611686018427387904", "orders"}, // it is JSON
		{"/api/segment/get/items", json, 404, "no such generator: items\n", ""}, // not an id of the default kind
		{"/api/snowflake/get/orders", "", 200, "4611686018427387904", ""},
		{"/api/snowflake/get/items", json, 200, "4611686018427387904", ""},
		{"/api/segment/get/", "", 404, "404 page not found\n", ""},
		{"/id/unknown", "", 404, "no such generator: unknown\n", ""},
		{"/ids/unknown?n=7", json, 404, "no such generator: unknown\n", ""},
		{"/id/orders/2", "", 404, "404 page not found\n", ""},
		{"/id/", "", 404, "404 page not found\n", ""},
		{"/ids/", "", 404, "404 page not found\n", ""},
	} {
		f := new(fixture)
		status, _, body := f.get(t, "GET", c.target, c.accept)
		if status != c.status || body != c.body || strings.Join(f.keys, " ") != c.key {
			t.Errorf("%s (%s): %d %q, keys %q", c.target, c.accept, status, body, f.keys)
		}
		refused := map[string]uint64{"/id/unknown": 1, "/ids/unknown?n=7": 7, "/api/segment/get/items": 1}[c.target]
		if got := f.counts.Refused.Load(); got != refused {
			t.Errorf("%s: %d ids counted as refused", c.target, got)
		}
	}
	f, ctx := new(fixture), make(chan struct{})
	r, cancel := context.WithCancel(t.Context())
	go func() {
		f.handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(r, "GET", "/id/gone", nil))
		close(ctx)
	}()
	cancel()
	<-ctx // a client that is gone is not waited for
}

// TestPagesOfOtherSitesUseUpNoIDs: a browser that a page of another site directs here gets none, and
// everybody else does.
func TestPagesOfOtherSitesUseUpNoIDs(t *testing.T) {
	for headers, want := range map[string]int{
		"": 200, "Origin: https://evil.example": 403, "Origin: null": 403, "Origin: ": 403, "Origin: %": 403,
		"Origin: http://ids.example:8080": 403, "Origin: http://example.com.evil.example": 403,
		"Origin: http://example.com": 200, "Sec-Fetch-Site: none": 200, "Sec-Fetch-Site: same-origin": 200,
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Sec-Fetch-Site: anything": 403,
	} {
		const targets = "/id /ids?n=5 /id/orders /ids/orders /api/segment/get/orders /api/snowflake/get/x"
		for target := range strings.FieldsSeq(targets) {
			f := new(fixture)
			r := httptest.NewRequest("GET", target, nil) // of example.com
			if name, value, ok := strings.Cut(headers, ": "); ok {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			f.handler().ServeHTTP(w, r)
			if w.Code != want || (len(f.keys) > 0) != (want == 200) {
				t.Errorf("%s, %s: status %d, want %d; ids for %q", target, headers, w.Code, want, f.keys)
			}
		}
	}
}

func TestRefusalIsUnavailableWithTheReason(t *testing.T) {
	f := &fixture{refuse: errors.New("no worker id yet")}
	for _, target := range []string{"/id", "/ids?n=5", "/readyz", "/api/segment/get/orders", "/api/snowflake/get/x"} {
		status, header, body := f.get(t, "GET", target, "")
		if status != 503 || header.Get("Retry-After") != "1" || body != "no worker id yet\n" {
			t.Errorf("%s: %d %q %q", target, status, header, body)
		}
	}
	if status, _, _ := f.get(t, "GET", "/healthz", ""); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	if f.counts.Requests.Load() != 4 || f.counts.Refused.Load() != 8 || f.counts.IDs.Load() != 0 {
		t.Errorf("counted %d requests, %d refused, %d ids", f.counts.Requests.Load(), f.counts.Refused.Load(),
			f.counts.IDs.Load())
	}
}

// TestReadyzReachesNoTerminal: a reason may hold what whatever runs at the store's address has answered.
func TestReadyzReachesNoTerminal(t *testing.T) {
	const hostile, harmless = "lane 0: ERR \x1b]0;x\a\xff\u202e\r é", `lane 0: ERR \u001b]0;x\u0007\xff\u202e\u000d é`
	f := &fixture{refuse: errors.New("none\n" + hostile)}
	if _, _, body := f.get(t, "GET", "/readyz", ""); body != "none\n"+harmless+"\n" {
		t.Errorf("not ready: %q", body)
	}
	f = &fixture{notes: []string{hostile}}
	if _, _, body := f.get(t, "GET", "/readyz", ""); body != "ready\n"+harmless+"\n" {
		t.Errorf("ready: %q", body)
	}
}

func TestRequestsAndIDsAreCounted(t *testing.T) {
	f := new(fixture)
	for _, target := range []string{"/id", "/ids?n=3", "/ids?n=0", "/stats", "/healthz"} {
		f.get(t, "GET", target, "")
	}
	if f.counts.Requests.Load() != 2 || f.counts.IDs.Load() != 4 || f.counts.Refused.Load() != 0 {
		t.Errorf("counted %d requests, %d ids, %d refused", f.counts.Requests.Load(), f.counts.IDs.Load(),
			f.counts.Refused.Load())
	}
}

// TestNothingIsCached: whatever the answer, a cache on the way must not give it to the next one who
// asks.
func TestNothingIsCached(t *testing.T) {
	for _, refuse := range []error{nil, errors.New("no worker id yet")} {
		for _, login := range []Login{nil, func(context.Context, netip.Addr, users.Credentials) (*users.Account, error) {
			return nil, nil
		}} {
			f := &fixture{refuse: refuse, login: login}
			for _, target := range []string{"/id", "/ids", "/id/a", "/ids/unknown", "/ids?n=0", "/stats", "/metrics", "/healthz",
				"/readyz", "/nowhere"} {
				_, header, _ := f.get(t, "GET", target, "")
				if header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: Cache-Control %q", target, header.Get("Cache-Control"))
				}
			}
		}
	}
}

// logins lets in ann, who knows "se:cret" or a token and may get a* and ord*, from one address.
func logins(t *testing.T) (login Login, token string) {
	t.Helper()
	rights, err := users.ParseRights("a*=get;ord*=get;z=incr,admin")
	if err != nil {
		t.Fatal(err)
	}
	ann, token, err := users.User{Name: "ann", Rights: rights}.WithToken()
	if err != nil {
		t.Fatal(err)
	}
	var d users.Directory
	d.Replace([]users.User{ann})
	return func(_ context.Context, from netip.Addr, c users.Credentials) (*users.Account, error) {
		switch {
		case string(c.User) == "busy":
			return nil, users.ErrBusy
		case from.String() != "192.0.2.1": // httptest's address
			return nil, nil
		case c.Token == nil && string(c.User) == "ann" && string(c.Password) == "se:cret":
			return d.Bearer([]byte(token)), nil
		}
		return d.Bearer(c.Token), nil
	}, token
}

// TestIDsNeedALogin: and the right to get them; nothing else does.
func TestIDsNeedALogin(t *testing.T) {
	f := new(fixture)
	login, token := logins(t)
	f.login = login
	h := f.handler()
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range []struct {
		target, authorization string
		status                int
		body                  string // begins so
		closes                bool
	}{
		{"/id/a", "", 401, "a user and a password, or a token, are needed\n", false},
		{"/ids/a?n=3", "", 401, "a user", false}, {"/ids?n=0", "", 401, "a user", false},
		{"/id/a", basic("ann", "guess"), 401, "a user", true}, {"/ids/a", basic("bob", "se:cret"), 401, "a user", true},
		{"/id/a", "Bearer guess", 401, "a user", true}, {"/id/a", "Bearer ", 401, "a user", true},
		{"/id/a", "Bearer", 401, "a user", false}, {"/id/a", "Digest x", 401, "a user", false},
		{"/id/a", basic("ann", "se:cret"), 200, "4611686018427387904", false},
		{"/ids/a?n=3", basic("ann", "se:cret"), 200, "4611686018427387905\n", false},
		{"/id/ab", "Bearer " + token, 200, "4611686018427387908", false},
		{"/id/ab", "bearer  " + token, 200, "4611686018427387909", false},
		{"/id/b", "Bearer " + token, 403, "not permitted: b\n", false},
		{"/ids/b?n=3", basic("ann", "se:cret"), 403, "not permitted: b\n", false},
		{"/id/z", "Bearer " + token, 403, "not permitted: z\n", false}, // it may incr that, and administer it
		{"/id", "Bearer " + token, 403, "not permitted: id\n", false},
		{"/ids?n=0", "Bearer " + token, 403, "not permitted: id\n", false},
		{"/id/a", basic("busy", ""), 503, "too many logins at this moment: try again\n", false},
		{"/api/segment/get/a", "", 401, "a user", false},
		{"/api/segment/get/ab", "Bearer " + token, 404, "no such generator", false},
		{"/api/segment/get/orders", "Bearer " + token, 200, "46116860184273879", false},
		{"/api/segment/get/b", "Bearer " + token, 403, "not permitted: b\n", false},
		{"/api/snowflake/get/a", "Bearer " + token, 403, "not permitted: id\n", false},
		{"/stats", "", 200, "", false}, {"/metrics", "", 200, "", false}, {"/healthz", basic("ann", "guess"), 200, "", false},
		{"/readyz", "", 200, "", false},
	} {
		r := httptest.NewRequest("GET", c.target, nil)
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		challenge := ""
		if c.status == 401 {
			challenge = `[Basic realm="katsubushi", charset="UTF-8" Bearer realm="katsubushi"]`
		}
		got := w.Header()
		if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.body) ||
			strings.Trim(fmt.Sprint(got["Www-Authenticate"]), "[]") != strings.Trim(challenge, "[]") ||
			(got.Get("Connection") == "close") != c.closes || (got.Get("Retry-After") == "1") != (c.status == 503) {
			t.Errorf("%s with %q: %d %v %s", c.target, c.authorization, w.Code, got, w.Body)
		}
	}
	n := &f.counts
	if n.Requests.Load() != 6 || n.IDs.Load() != 7 || n.Logins.Load() != 18 || n.LoginErrors.Load() != 4 {
		t.Errorf("counted %d requests, %d ids, %d logins, %d wrong ones", n.Requests.Load(), n.IDs.Load(), n.Logins.Load(),
			n.LoginErrors.Load())
	}
}

// TestABodyIsNotTakenIn: a form of any size would be, into memory and then into temporary files.
func TestABodyIsNotTakenIn(t *testing.T) {
	r := httptest.NewRequest("GET", "/ids",
		strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n2\r\n--x--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	w := httptest.NewRecorder()
	new(fixture).handler().ServeHTTP(w, r)
	if left, err := io.ReadAll(r.Body); len(left) == 0 || err != nil || w.Body.String() != "4611686018427387904" {
		t.Errorf("answered %q, and left %q of the body, %v", w.Body, left, err)
	}
}

func TestDebugServerServesOnlyWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct{ pprof, stats bool }{{true, false}, {false, true}, {true, true}} {
		h := NewDebugServer(c.pprof, c.stats, new(events.Log), nil).Handler
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
	h := NewDebugServer(false, true, new(events.Log), nil).Handler
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
