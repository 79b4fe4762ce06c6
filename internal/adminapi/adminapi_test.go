package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// account makes a user who administers the names that match a pattern, or none; and may get all.
func account(t *testing.T, pattern string) *users.Account {
	t.Helper()
	rights := "*=get"
	if pattern != "" {
		rights += ";" + pattern + "=admin"
	}
	r, err := users.ParseRights(rights)
	if err != nil {
		t.Fatal(err)
	}
	u, token, err := users.User{Name: "ann", Rights: r}.WithToken()
	if err != nil {
		t.Fatal(err)
	}
	var d users.Directory
	d.Replace([]users.User{u})
	return d.Bearer([]byte(token))
}

// A fixture lets users in by the header X-User, which has the pattern of what they administer.
type fixture struct {
	t      *testing.T
	store  memcounter.Store
	users  *users.File
	config Config
	served map[string]kinds.Definition
	log    bytes.Buffer

	user    []string    // who asks; none = nobody has logged in
	header  http.Header // of the next request
	claimed int64       // length of the next request's body, which ends earlier; 0 = none
}

func newFixture(t *testing.T) *fixture {
	t.Chdir(t.TempDir())
	f := &fixture{t: t, store: memcounter.NewDatabase().Open(), users: users.NewFile("users"), header: http.Header{}}
	f.config = Config{
		Login: func(w http.ResponseWriter, r *http.Request) *users.Account {
			if r.Header["X-User"] == nil {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return nil
			}
			return account(t, r.Header.Get("X-User"))
		},
		Sequences: func() (counter.Admin, error) { return f.store, nil },
		Create: func(ctx context.Context, def kinds.Definition) (counter.Record, bool, error) {
			if _, err := f.config.Sequences(); err != nil {
				return counter.Record{}, false, err
			}
			_, err := f.store.Show(ctx, def.Name)
			r, err2 := stores.Create(ctx, f.store, def)
			return r, errors.Is(err, counter.ErrUnknown), err2
		},
		Served:  func(name string) kinds.Definition { return f.served[name] },
		Elector: func() (stores.Elector, error) { return nil, stores.ErrNoElection },
		Users:   func() users.Store { return f.users },
		Log:     slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	return f
}

// ask sends a request of METHOD /path and a body, as a user.
func (f *fixture) ask(method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if f.user == nil || f.claimed > 0 { // no body is read of who has not logged in, and no length believed
		r = httptest.NewRequest(method, target, io.MultiReader(strings.NewReader(body), errReader{}))
		r.ContentLength = f.claimed
	}
	maps.Copy(r.Header, f.header)
	if f.user != nil {
		r.Header["X-User"] = f.user
	}
	w := httptest.NewRecorder()
	New(f.config).ServeHTTP(w, r)
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" ||
		(w.Header().Get("Content-Type") == "application/json") != (w.Code < 300) ||
		w.Body.Len() > maxError+1 && w.Code >= 300 {
		f.t.Errorf("%s %s: %d bytes, %v", method, target, w.Body.Len(), w.Header())
	}
	return w
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("cut off") }

var token = regexp.MustCompile(`kts_[^"]*`)

// calls are what the script of the port does.
func (f *fixture) calls() steps.Calls {
	c := steps.Calls{
		"as":     func(user ...string) { f.user = user },
		"define": func(name string) { f.store.Define(f.t.Context(), counter.Sequence(name)) },
		"damage": func(name string) { f.store.DB.Damage(name) },
		"undone": func(by string) { f.store.DB.Undone = by },
		"late":   func(d string, silent time.Duration) { f.store.DB.Late = []counter.Daemon{{Name: d, Silent: silent}} },
		"serve": func(line string) error {
			def, err := kinds.Parse(line)
			f.served = map[string]kinds.Definition{def.Name: def}
			return err
		},
		"elections": func() {
			e := newElections()
			f.config.Elector = func() (stores.Elector, error) { return e, nil }
		},
		"url":   func(url string) { f.config.Counters.URL = url },
		"users": func(s users.Store) { f.config.Users = func() users.Store { return s } },
		"are":   map[string]users.Store{"away": away{}},
		"store": func(what string) {
			var s counter.Admin = f.store
			var err error
			switch what {
			case "down":
				s = broken{f.store, fmt.Errorf("etcd: %w", counter.ErrUnavailable)}
			case "foreign":
				s = broken{f.store, errors.Join(fmt.Errorf("b: %w", counter.ErrForeign), errors.New("c too"))}
			case "none":
				s, err = nil, stores.Conflict{Err: stores.ErrNoPlace}
			}
			f.config.Sequences = func() (counter.Admin, error) { return s, err }
		},
		"with": func(header string) { // the next request
			name, value, _ := strings.Cut(header, ": ")
			f.header.Set(name, value)
		},
		"claim": func(length int64) { f.claimed = length },
		"log":   func() string { return script.Logged(f.log.String()) },
	}
	for _, method := range []string{"GET", "PUT", "POST", "DELETE", "OPTIONS"} {
		c[method] = func(target string, body ...string) string {
			if len(body) > 2 {
				times, _ := strconv.Atoi(body[2])
				body[1], body[2] = strings.Repeat(body[1], times), ""
			}
			w := f.ask(method, target, strings.Join(body, ""))
			clear(f.header)
			f.claimed = 0
			said := fmt.Sprintf("%d %.400s", w.Code, token.ReplaceAllString(w.Body.String(), "kts_..."))
			if after := w.Header().Get("Retry-After"); after != "" {
				said += "again after " + after + " s"
			}
			return said
		}
	}
	return c
}

func TestAdmin(t *testing.T) {
	steps.Run(t, "testdata/admin.txt", func(t *testing.T) steps.Calls { return newFixture(t).calls() })
}

// TestNewUsersLogIn: what was made opens the door, and no secret is logged.
func TestNewUsersLogIn(t *testing.T) {
	f := newFixture(t)
	f.user = []string{"*"}
	var made struct{ Token string }
	answer := f.ask("PUT", "/users/bob", `{"token":true,"rights":"*=get"}`).Body.Bytes()
	if err := json.Unmarshal(answer, &made); err != nil {
		t.Fatal(err)
	}
	f.ask("PUT", "/users/ann", `{"password":"secret","rights":"*=get"}`)
	f.ask("PUT", "/users/ann", `{"rights":"*=incr"}`)
	_, list, err := f.users.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var d users.Directory
	d.Replace(list)
	if a := d.Bearer([]byte(made.Token)); a == nil || a.Name != "bob" || a.Rights().String() != "*=get" {
		t.Errorf("the token is %v's", a)
	}
	verifier := users.NewVerifier(&d, func() {})
	a, err := verifier.Login(t.Context(), netip.Addr{}, []byte("ann"), []byte("secret"))
	if err != nil || a == nil || a.Rights().String() != "*=incr" {
		t.Errorf("the password lets in %v, %v", a, err)
	}
	if strings.Contains(f.log.String(), "secret") || strings.Contains(f.log.String(), "kts_") {
		t.Error(f.log.String())
	}
}

// elections is an Elector in which b takes over whatever a hands over, but group 5.
type elections struct {
	stores.Elector
	mu    sync.Mutex
	state leader.State
	left  []leader.Demand
}

func newElections() *elections {
	e := new(elections)
	for _, g := range []int{3, 4, 5} {
		e.state.Leaders[g] = leader.Leader{Node: leader.Node{ID: "aa", Redis: "a:1"}, Number: 1<<63 + 1}
	}
	return e
}

func (e *elections) Commit(context.Context, leader.Change) (bool, leader.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return true, e.state, nil
}

func (e *elections) Leave(_ context.Context, demands ...leader.Demand) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range demands {
		if d.Group == 5 {
			d.Answer = "no other daemon runs"
			e.left = append(e.left, d)
		} else {
			e.state.Leaders[d.Group] = leader.Leader{Node: leader.Node{ID: "bb", Redis: "b:1"}, Number: d.Term + 1}
		}
	}
	return nil
}

func (e *elections) Left(context.Context) ([]leader.Demand, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left, nil
}

// A broken store fails, or knows what is wrong with some records.
type broken struct {
	memcounter.Store
	err error
}

func (b broken) List(ctx context.Context) ([]counter.Record, error) {
	list, _ := b.Store.List(ctx)
	return list, b.err
}
func (b broken) Show(context.Context, string) (counter.Record, error) {
	return counter.Record{}, b.err
}

// away is a store of users that cannot be reached.
type away struct{}

func (away) Changes(context.Context, string) (string, []users.User, error) {
	return "", nil, fmt.Errorf("etcd: %w", users.ErrUnavailable)
}
func (away) Update(context.Context, string, func(*users.User) (*users.User, error)) error {
	return context.DeadlineExceeded
}

// Whatever the body says, it is answered with one line, and what is recorded is what it says.
func FuzzDefine(f *testing.F) {
	for _, seed := range []string{"a sequence", `{"definition":"a sequence start=5"}`, "a sequence step=0",
		`{"definition":"\u0000"}`, "{", "a\nsequence\x00"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, body string, json bool) {
		x := newFixture(t)
		kind := "text/plain"
		if json {
			kind = "application/json"
		}
		x.user = []string{"*"}
		x.header.Set("Content-Type", kind)
		w := x.ask("PUT", "/generators/a", body)
		r, err := x.store.Show(t.Context(), "a")
		if lines := strings.Count(w.Body.String(), "\n"); lines != 1 || (err == nil) != (w.Code == 201) || err != nil &&
			w.Code != 400 && w.Code != 413 {
			t.Fatalf("%q: %d %q, recorded: %v", body, w.Code, w.Body, err)
		}
		if err == nil && !json {
			if def, err := kinds.Parse(body); err != nil || !r.Same(def.Definition) {
				t.Fatalf("%q is recorded as %+v: %v", body, r, err)
			}
		}
	})
}
