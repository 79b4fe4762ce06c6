package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/test/steps"
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
	token  string       // that it lets in
	debug  http.Handler // asked instead; nil = none
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

// ask sends a request of METHOD and a target, with headers. BASIC and TOKEN in them are ann's.
func (f *fixture) ask(method, target string, headers ...string) string {
	r := httptest.NewRequest(method, target, nil) // of example.com
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if of, basic := strings.CutPrefix(value, "Basic "); basic {
			value = "Basic " + base64.StdEncoding.EncodeToString([]byte(of))
		}
		r.Header.Set(name, strings.NewReplacer("TOKEN", f.token, `\s`, " ").Replace(value))
	}
	w := httptest.NewRecorder()
	f.keys = nil
	h := f.debug
	if h == nil {
		h = f.handler()
	}
	h.ServeHTTP(w, r)
	said := fmt.Sprint(w.Code, " ", w.Header()["Content-Type"], " ", w.Body)
	if !strings.HasSuffix(said, "\n") {
		said += "|"
	}
	for _, name := range []string{"Www-Authenticate", "Connection", "Retry-After"} {
		if is := w.Header()[name]; is != nil {
			said += fmt.Sprint("\n- ", name, " ", is)
		}
	}
	if len(f.keys) > 0 {
		said += fmt.Sprint("\n- ids for ", f.keys)
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		said += "\n- may be cached"
	}
	return said
}

// ended is a refusal for good.
type ended string

func (e ended) Error() string { return string(e) }
func (e ended) Final() bool   { return true }

func TestAnswers(t *testing.T) {
	steps.Run(t, "testdata/answers.txt", func(t *testing.T) steps.Calls {
		f, kept := new(fixture), new(events.Log)
		log := slog.New(kept.Handler(slog.DiscardHandler))
		c := steps.Calls{
			"refuse": func(why string) error {
				why, err := strconv.Unquote(`"` + why + `"`)
				f.refuse = errors.New(why)
				return err
			},
			"end": func(why string) { f.refuse = ended(why) },
			"note": func(what string) error {
				what, err := strconv.Unquote(`"` + what + `"`)
				f.notes = append(f.notes, what)
				return err
			},
			"login": func() { f.login, f.token = logins(t) },
			"counts": func() string {
				n := &f.counts
				return fmt.Sprintf("%d requests, %d ids, %d refused; %d logins, %d wrong ones", n.Requests.Load(), n.IDs.Load(),
					n.Refused.Load(), n.Logins.Load(), n.LoginErrors.Load())
			},
			"debug": func() { f.debug = NewDebugServer(false, true, kept, nil).Handler },
			"inform": func() {
				log.Info("lease", "lane", 0, "state", "serving", "took", 1500*time.Millisecond, "none", "")
			},
			"warn": func() {
				log.Warn("two\nlines \x1b[31m", "error", errors.New("no \"route\""), "until", time.Now(), "share", math.Inf(1),
					"rate", 0.5)
			},
			"sleep": time.Sleep,
		}
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			c[method] = func(target string, headers ...string) string { return f.ask(method, target, headers...) }
		}
		return c
	})
}

// TestAClientThatIsGone is not waited for.
func TestAClientThatIsGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/id/gone", nil)
	new(fixture).handler().ServeHTTP(httptest.NewRecorder(), r)
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
