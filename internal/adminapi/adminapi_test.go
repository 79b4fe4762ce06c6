package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
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
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, store: memcounter.NewDatabase().Open(),
		users: users.NewFile(filepath.Join(t.TempDir(), "users"))}
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
			_, err := f.store.Show(ctx, def.Name)
			r, err2 := stores.Create(ctx, f.store, def)
			return r, errors.Is(err, counter.ErrUnknown), err2
		},
		Served: func(name string) kinds.Definition { return f.served[name] },
		Users:  func() users.Store { return f.users },
		Log:    slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	return f
}

// ask sends a request of METHOD /path and a body, as a user.
func (f *fixture) ask(user, request, body string, header ...string) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("X-User", user)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	New(f.config).ServeHTTP(w, r)
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" {
		f.t.Errorf("%s: %v", request, w.Header())
	}
	return w
}

func TestGenerators(t *testing.T) {
	f := newFixture(t)
	const orders = `{"name":"orders","definition":"orders sequence start=100 step=2 offset=1","next":"%s","floor":"%s",` +
		`"left":"%s","state":"%s"}` + "\n"
	fresh := fmt.Sprintf(orders, "101", "0", "4611686018427387854", "active")
	raised := fmt.Sprintf(orders, "201", "200", "4611686018427387804", "active")
	for _, c := range []struct {
		request, body string
		status        int
		answer        string
	}{
		{"GET /generators", "", 200, `{"generators":[]}` + "\n"},
		{"GET /generators/orders", "", 404, "no such sequence in the counter store\n"},
		{"PUT /generators/orders", "orders sequence start=100 step=2 offset=1\n", 201, fresh},
		{"PUT /generators/orders", "  orders sequence\tstep=2 start=100 offset=1 batch=7", 200, fresh},
		{"PUT /generators/orders", "orders sequence start=100", 409,
			`the definition "orders sequence start=100" is not what is recorded, "orders sequence start=100 step=2 ` +
				`offset=1": a sequence never changes; give it another name, or the definition that is recorded` + "\n"},
		{"PUT /generators/orders", "evens sequence", 400,
			`"evens sequence start=1" defines evens, and the path names "orders"` + "\n"},
		{"PUT /generators/orders", "", 400, "a name and a kind are needed, such as: orders sequence start=1\n"},
		{"PUT /generators/orders", "orders sequence step=0 start=0", 400,
			`"step=0": 1 to 9223372036854775807 allowed; "start=0": 1 to 9223372036854775807 allowed` + "\n"},
		{"PUT /generators/orders", "orders uuid7", 400,
			`orders is a uuid7, of which nothing is recorded: only sequences are created; give daemons -name ` +
				`"orders uuid7"` + "\n"},
		{"PUT /generators/orders", "orders sequence rate=5", 400,
			"rate= and on-loss= are for stores that may lose what they have confirmed, such as redis://; file does not\n"},
		{"PUT /generators/id", "id sequence", 400,
			`the name "id": id, and names of digits alone, stand for the default kind` + "\n"},
		{"GET /generators/orders", "", 200, fresh},
		{"GET /generators/a*b", "", 400,
			`the name "a*b": 1 to 64 of the characters A-Z a-z 0-9 _ . : { } - are allowed` + "\n"},
		{"POST /generators/orders/raise?at_least=101", "", 409,
			"sequence orders: 101 is not above what is there: already no value below 101 is issued. A sequence never " +
				"goes down\n"},
		{"POST /generators/orders/raise?at_least=200", "", 200, raised},
		{"POST /generators/orders/raise?at_least=150", "", 409,
			"sequence orders: 150 is not above what is there: already no value below 200 is issued. A sequence never " +
				"goes down\n"},
		{"POST /generators/orders/raise?at_least=many", "", 400, "AT_LEAST=many: 1 to 9223372036854775807 allowed\n"},
		{"POST /generators/orders/raise?at_least=300&at_least=400", "", 400,
			`the parameter "at_least" is given 2 times` + "\n"},
		{"POST /generators/orders/raise?at_least=300&force=%tr", "", 400, `invalid URL escape "%tr"` + "\n"},
		{"POST /generators/orders/raise", "", 400, "AT_LEAST=: 1 to 9223372036854775807 allowed\n"},
		{"POST /generators/none/raise?at_least=5", "", 404, "no such sequence in the counter store\n"},
		{"POST /generators/orders/adopt", "", 409, "sequence orders is this machine's already\n"},
		{"PUT /generators/a:%7Bb%7D", "a:{b} sequence max=7", 201,
			`{"name":"a:{b}","definition":"a:{b} sequence start=1 max=7","next":"1","floor":"0","left":"7","state":"active"}` +
				"\n"},
		{"POST /generators/a:%7Bb%7D/raise?at_least=8", "", 409, "8: the values of sequence a:{b} are 1 to 7\n"},
		{"GET /generators", "", 200,
			`{"generators":[{"name":"a:{b}","definition":"a:{b} sequence start=1 max=7","next":"1","floor":"0","left":"7",` +
				`"state":"active"},` + strings.TrimSpace(raised) + "]}\n"},
		{"DELETE /generators/orders", "", 409,
			"sequence orders: daemons would refuse it for ever, and the name could not be used again: ?force=true does that\n"},
		{"DELETE /generators/orders?force=yes", "", 409,
			"sequence orders: daemons would refuse it for ever, and the name could not be used again: ?force=true does that\n"},
		{"DELETE /generators/none", "", 404, "no such sequence in the counter store\n"},
		{"DELETE /generators/orders?force=true", "", 200, fmt.Sprintf(orders, "201", "200", "0", "retired")},
		{"PUT /generators/orders", "orders sequence start=100 step=2 offset=1", 409,
			"sequence orders is retired: the name cannot be used again\n"},
		{"POST /generators/orders/raise?at_least=900", "", 409, "the sequence is retired\n"},
		{"POST /generators/orders", "", 405, "Method Not Allowed\n"},
		{"GET /nothing", "", 404, "404 page not found\n"},
	} {
		w := f.ask("*", c.request, c.body)
		if w.Code != c.status || w.Body.String() != c.answer {
			t.Errorf("%s %q: %d %s", c.request, c.body, w.Code, w.Body)
		}
		if json := w.Header().Get("Content-Type") == "application/json"; json != (c.status < 300) {
			t.Errorf("%s: %v", c.request, w.Header())
		}
	}
}

// The definition may come as JSON, as curl's -d sends it, or without a type.
func TestBodies(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat(" ", maxBody+1)
	for _, c := range []struct {
		kind, body string
		status     int
		answer     string // begins so
	}{
		{"application/json", `{"definition":"a sequence"}`, 201, `{"name":"a"`},
		{"application/json; charset=utf-8", ` {"definition":"a sequence start=1"} `, 200, `{"name":"a"`},
		{"application/x-www-form-urlencoded", "a sequence", 200, `{"name":"a"`},
		{"text/plain; charset=utf-8", "a sequence", 200, `{"name":"a"`},
		{"application/json", `a sequence`, 400, "invalid character 'a'"},
		{"application/json", `{"definition":"a sequence","start":5}`, 400, `json: unknown field "start"`},
		{"application/json", `{"definition":"a sequence"} {}`, 400, "JSON: more than one value"},
		{"application/json", `{"definition":7}`, 400, "json: cannot unmarshal"},
		{"application/json", ``, 400, "JSON: the body is empty"},
		{"application/json", `{"definition":"a sequence"`, 400, "JSON: the body ends too early"},
		{"application/json", `null`, 400, "a name and a kind are needed"},
		{"application/json", `{"definition":"a sequence"}` + long, 413, "http: request body too large"},
		{"text/plain", "a sequence" + long, 413, "http: request body too large"},
		{"text/plain", "a sequence " + strings.Repeat("x ", 8000), 400, `"x": sequence has the options`},
	} {
		w := f.ask("*", "PUT /generators/a", c.body, "Content-Type", c.kind)
		got := w.Body.String()
		if w.Code != c.status || !strings.HasPrefix(got, c.answer) || strings.Count(got, "\n") != 1 || len(got) > maxError+1 {
			t.Errorf("%s %.50q: %d %.200q", c.kind, c.body, w.Code, got)
		}
	}
	// A length that is claimed is not believed: neither waited for, nor made room for.
	r := httptest.NewRequest("PUT", "/generators/a", io.MultiReader(strings.NewReader("a sequence"), errReader{}))
	r.Header.Set("X-User", "*")
	r.ContentLength = 1 << 50
	w := httptest.NewRecorder()
	if New(f.config).ServeHTTP(w, r); w.Code != 400 || w.Body.String() != "cut off\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("cut off") }

// What a user may not administer is neither done nor shown.
func TestRights(t *testing.T) {
	f := newFixture(t)
	f.config.Elector = func() (stores.Elector, error) { return newElections(), nil }
	for _, name := range []string{"orders", "orders2", "evens"} {
		f.store.Define(t.Context(), counter.Sequence(name))
	}
	for _, c := range []struct {
		user, request, body string
		status              int
		answer              string // begins so
	}{
		{"orders*", "GET /generators/orders", "", 200, `{"name":"orders"`},
		{"orders*", "GET /generators", "", 200, `{"generators":[{"name":"orders",`},
		{"orders*", "PUT /generators/orders3", "orders3 sequence", 201, `{"name":"orders3"`},
		{"orders*", "POST /generators/orders3/raise?at_least=5", "", 200, `{"name":"orders3"`},
		{"orders*", "DELETE /generators/orders3?force=true", "", 200, `{"name":"orders3"`},
		{"orders*", "GET /generators/evens", "", 403, "not permitted: evens\n"},
		{"orders*", "PUT /generators/evens", "evens sequence", 403, "not permitted: evens\n"},
		{"orders*", "PUT /generators/orders4", "evens sequence step=2", 400,
			`"evens sequence start=1 step=2 offset=1" defines evens`},
		{"orders*", "POST /generators/evens/raise?at_least=5", "", 403, "not permitted: evens\n"},
		{"orders*", "POST /generators/evens/adopt", "", 403, "not permitted: evens\n"},
		{"orders*", "DELETE /generators/evens?force=true", "", 403, "not permitted: evens\n"},
		{"orders*", "GET /leaders", "", 403, "not permitted: *\n"},
		{"orders*", "POST /leaders/3/demote", "", 403, "not permitted: *\n"},
		{"", "GET /generators", "", 403, "not permitted: *\n"},
		{"", "GET /generators/none", "", 403, "not permitted: none\n"},
		{"none", "GET /generators", "", 403, "not permitted: *\n"},
	} {
		w := f.ask(c.user, c.request, c.body)
		if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.answer) {
			t.Errorf("%s as %q: %d %s", c.request, c.user, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), `"name":"evens"`) {
			t.Errorf("%s as %q shows evens: %s", c.request, c.user, w.Body)
		}
	}
	if r, err := f.store.Show(t.Context(), "evens"); err != nil || r.Retired || r.Floor != 0 {
		t.Errorf("evens was changed: %+v, %v", r, err)
	}
}

// Nobody who has not logged in learns anything, not even which paths there are, and no body is read.
func TestEverythingNeedsALogin(t *testing.T) {
	f := newFixture(t)
	for _, request := range []string{"GET /generators", "GET /generators/a", "PUT /generators/a", "DELETE /generators/a",
		"POST /generators/a/raise",
		"POST /generators/a/adopt", "GET /leaders", "POST /leaders/all/demote", "GET /users", "PUT /users/a", "GET /nothing",
		"POST /generators", "GET /"} {
		method, target, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, target, errReader{})
		w := httptest.NewRecorder()
		New(f.config).ServeHTTP(w, r)
		if w.Code != 401 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
}

// A page that an operator happens to look at must not use the password that the browser remembers.
func TestWebPagesAreRefused(t *testing.T) {
	f := newFixture(t)
	for header, status := range map[string]int{
		"Origin: https://evil.example": 403, "Origin: null": 403, "Origin: ": 403, "Origin: http://example.com": 403,
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Sec-Fetch-Site: same-origin": 403,
		"Sec-Fetch-Site: none": 200, "User-Agent: curl/8": 200,
	} {
		name, value, _ := strings.Cut(header, ": ")
		for _, request := range []string{"GET /generators", "OPTIONS /generators", "PUT /generators/a"} {
			w := f.ask("*", request, "a sequence", name, value)
			if (w.Code == 403) != (status == 403) {
				t.Errorf("%s with %s: %d %s", request, header, w.Code, w.Body)
			}
		}
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

func TestLeaders(t *testing.T) {
	f := newFixture(t)
	f.config.Elector = func() (stores.Elector, error) { return nil, stores.ErrNoElection }
	for _, request := range []string{"GET /leaders", "POST /leaders/0/demote", "POST /leaders/all/demote"} {
		if w := f.ask("*", request, ""); w.Code != 409 ||
			w.Body.String() != "leaders are elected in etcd only: -counters etcd://...\n" {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
	e := newElections()
	f.config.Elector = func() (stores.Elector, error) { return e, nil }
	for _, c := range []struct {
		request string
		status  int
		answer  string // contained
	}{
		{"GET /leaders", 200, `{"leaders":[{"group":0,"leader":"","id":"","term":"0"},`},
		{"GET /leaders", 200, `{"group":3,"leader":"a:1","id":"aa","term":"9223372036854775809"},`},
		{"POST /leaders/3/demote", 200, `{"demoted":[{"group":3,"from":"a:1","to":"b:1"}]}` + "\n"},
		{"GET /leaders", 200, `{"group":3,"leader":"b:1","id":"bb","term":"9223372036854775810"},`},
		{"POST /leaders/a:1/demote", 409, "group 5: a:1: no other daemon runs\n"}, // but group 4 was
		{"POST /leaders/b:1/demote", 200, `{"demoted":[{"group":3,"from":"b:1","to":"b:1"},{"group":4,`},
		{"POST /leaders/5/demote", 409, "group 5: a:1: no other daemon runs\n"},
		{"POST /leaders/all/demote", 409, "group 5: a:1: no other daemon runs\n"},
		{"POST /leaders/6/demote", 409, "nobody leads group 6\n"},
		{"POST /leaders/c:1/demote", 409, "c:1 leads no group\n"},
		{"POST /leaders/32/demote", 400, "group 32: 0 to 31 allowed\n"},
		{"POST /leaders/-1/demote", 400, "group -1: 0 to 31 allowed\n"},
		{"GET /leaders/3/demote", 405, "Method Not Allowed\n"},
	} {
		if w := f.ask("*", c.request, ""); w.Code != c.status || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s: %d %s", c.request, w.Code, w.Body)
		}
	}
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

func TestUsersThatCannotBeReached(t *testing.T) {
	f := newFixture(t)
	f.config.Users = func() users.Store { return away{} }
	for request, want := range map[string]string{
		"GET /users":        "etcd: the users cannot be read at the moment\n",
		"GET /users/ann":    "etcd: the users cannot be read at the moment\n",
		"PUT /users/ann":    "context deadline exceeded\n",
		"DELETE /users/ann": "context deadline exceeded\n",
	} {
		if w := f.ask("*", request, `{"token":true,"rights":""}`); w.Code != 503 || w.Header().Get("Retry-After") != "1" ||
			w.Body.String() != want {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
}

func TestStoresThatFail(t *testing.T) {
	f := newFixture(t)
	sequences := func(s counter.Admin, err error) {
		f.config.Sequences = func() (counter.Admin, error) { return s, err }
	}
	down := broken{f.store, fmt.Errorf("etcd: %w", counter.ErrUnavailable)}
	sequences(down, nil)
	for _, request := range []string{"GET /generators", "GET /generators/a", "POST /generators/a/raise?at_least=7",
		"DELETE /generators/a", "POST /generators/a/adopt"} {
		if w := f.ask("*", request, ""); w.Code != 503 || w.Header().Get("Retry-After") != "1" ||
			w.Body.String() != "etcd: the counter store does not answer\n" {
			t.Errorf("%s: %d %v %s", request, w.Code, w.Header(), w.Body)
		}
	}
	f.store.Define(t.Context(), counter.Sequence("a"))
	f.store.Define(t.Context(), counter.Sequence("b"))
	f.store.DB.Damage("b")
	sequences(f.store, nil)
	problem := `"problems":["the record is damaged: sequence b: nonsense: `
	if w := f.ask("*", "GET /generators", ""); w.Code != 200 || !strings.Contains(w.Body.String(), problem) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := f.ask("a", "GET /generators", ""); w.Code != 200 || strings.Contains(w.Body.String(), "damaged") {
		t.Errorf("who administers a: %d %s", w.Code, w.Body)
	}
	sequences(broken{f.store, errors.Join(fmt.Errorf("b: %w", counter.ErrForeign), errors.New("c too"))}, nil)
	text := "b: the counter store is not the one that granted the last block; c too\n"
	if w := f.ask("*", "GET /generators/b", ""); w.Code != 409 || w.Body.String() != text {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	sequences(nil, stores.Conflict{Err: stores.ErrNoPlace})
	f.config.Create = func(context.Context, kinds.Definition) (r counter.Record, created bool, err error) {
		_, err = f.config.Sequences()
		return r, false, err
	}
	for _, request := range []string{"GET /generators", "GET /generators/a", "PUT /generators/a",
		"DELETE /generators/a?force=true"} {
		if w := f.ask("*", request, "a sequence"); w.Code != 409 || w.Body.String() != stores.ErrNoPlace.Error()+"\n" {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
	f.config.Counters.URL = "redis://h"
	sequences(f.store, nil)
	if w := f.ask("*", "POST /generators/a/adopt", ""); w.Code != 409 ||
		!strings.Contains(w.Body.String(), "for files only") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Every change is logged, with its user, done or not.
func TestChangesAreLogged(t *testing.T) {
	f := newFixture(t)
	f.ask("*", "GET /generators", "")
	f.ask("*", "PUT /generators/a", "a sequence")
	f.ask("b", "DELETE /generators/a?force=true", "")
	got := f.log.String()
	for _, want := range []string{
		`msg=administered user=ann peer=192.0.2.1:1234 request="PUT /generators/a" status=201`,
		`msg=administered user=ann peer=192.0.2.1:1234 request="DELETE /generators/a" status=403`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Count(got, "\n") != 2 {
		t.Error(got)
	}
}

func TestUsers(t *testing.T) {
	f := newFixture(t)
	const ann, bob = `{"name":"ann","login":"password","rights":"*=get,incr"}`,
		`{"name":"bob","login":"token","rights":"orders*=get;*=admin"`
	for _, c := range []struct {
		request, body string
		status        int
		answer        string // the token replaced
	}{
		{"PUT /users/ann", `{"password":"secret","rights":"*=get,incr"}`, 201, ann + "\n"},
		{"GET /users", "", 200, `{"users":[` + ann + "]}\n"},
		{"PUT /users/bob", `{"token":true,"rights":"orders*=get;*=admin"}`, 201, bob + `,"token":"kts_..."}` + "\n"},
		{"GET /users/bob", "", 200, bob + "}\n"},
		{"PUT /users/bob", `{"token":true}`, 200, bob + `,"token":"kts_..."}` + "\n"},
		{"PUT /users/ann", `{"rights":"a*=get"}`, 200, `{"name":"ann","login":"password","rights":"a*=get"}` + "\n"},
		{"PUT /users/ann", `{"password":"other"}`, 200, `{"name":"ann","login":"password","rights":"a*=get"}` + "\n"},
		{"PUT /users/ann", `{"rights":""}`, 200, `{"name":"ann","login":"password","rights":""}` + "\n"},
		{"PUT /users/ann", `{"rights":"*=fly"}`, 400, `right "fly": get, incr, admin allowed, with commas between` + "\n"},
		{"PUT /users/ann", `{"password":"a","token":true,"rights":""}`, 400,
			"password and token: one of the two is allowed\n"},
		{"PUT /users/ann", `{}`, 400, "a user needs rights, such as orders*=get,incr;*=get, and a password or a token\n"},
		{"PUT /users/eve", `{"password":"secret"}`, 400,
			"a user needs rights, such as orders*=get,incr;*=get, and a password or a token\n"},
		{"PUT /users/eve", `{"rights":"*=get"}`, 404, `there is no user "eve"` + "\n"},
		{"PUT /users/e%20e", `{"token":true,"rights":"*=get"}`, 400,
			`user "e e": 1 to 64 letters, digits and "_.@-" allowed` + "\n"},
		{"PUT /users/eve", `{"password":"` + strings.Repeat("x", 257) + `","rights":""}`, 400,
			"a password of 257 bytes: 1 to 256 allowed\n"},
		{"PUT /users/eve", `{"password":"secret","rights":"","hash":"x"}`, 400, `json: unknown field "hash"` + "\n"},
		{"PUT /users/eve", `password`, 400, "invalid character 'p' looking for beginning of value\n"},
		{"GET /users/eve", "", 404, `there is no user "eve"` + "\n"},
		{"DELETE /users/eve", "", 404, `there is no user "eve"` + "\n"},
		{"DELETE /users/ann", "", 200, `{"name":"ann","login":"password","rights":""}` + "\n"},
		{"GET /users", "", 200, `{"users":[` + bob + "}]}\n"},
	} {
		w := f.ask("*", c.request, c.body)
		got := regexp.MustCompile(`kts_[^"]*`).ReplaceAllString(w.Body.String(), "kts_...")
		if w.Code != c.status || got != c.answer || strings.Contains(got, "argon2") || strings.Contains(got, "sha256") {
			t.Errorf("%s %s: %d %s", c.request, c.body, w.Code, w.Body)
		}
	}
	for _, request := range []string{"GET /users", "GET /users/bob", "PUT /users/bob", "DELETE /users/bob"} {
		if w := f.ask("bob", request, `{"rights":"*=admin"}`); w.Code != 403 || w.Body.String() != "not permitted: *\n" {
			t.Errorf("%s by who administers generator bob: %d %s", request, w.Code, w.Body)
		}
	}
	const lastAdmin = `user "bob" is the last one with the right admin on *: without one nobody can change users over ` +
		`the admin port. ` +
		"Grant another user *=admin first; ?force=true does it all the same\n"
	for _, request := range []string{"PUT /users/bob", "DELETE /users/bob"} {
		if w := f.ask("*", request, `{"rights":"orders*=admin"}`); w.Code != 409 || w.Body.String() != lastAdmin {
			t.Errorf("%s, the last one with admin: %d %s", request, w.Code, w.Body)
		}
	}
	for _, rights := range []string{"*=get", "orders*=get;*=admin"} {
		if w := f.ask("*", "PUT /users/bob?force=true", `{"rights":"`+rights+`"}`); w.Code != 200 {
			t.Errorf("with force: %d %s", w.Code, w.Body)
		}
	}
	if w := f.ask("*", "DELETE /users/bob?force=true", ""); w.Code != 409 ||
		!strings.HasSuffix(w.Body.String(), ": no users: no client could ask for ids\n") {
		t.Errorf("the last user: %d %s", w.Code, w.Body)
	}
	// What was made opens the door.
	var made struct{ Token string }
	if err := json.Unmarshal(f.ask("*", "PUT /users/bob", `{"token":true}`).Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	f.ask("*", "PUT /users/ann", `{"password":"secret","rights":"*=get"}`)
	f.ask("*", "PUT /users/ann", `{"rights":"*=incr"}`)
	_, list, err := f.users.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var d users.Directory
	d.Replace(list)
	if a := d.Bearer([]byte(made.Token)); a == nil || a.Name != "bob" || a.Rights().String() != "orders*=get;*=admin" {
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
		w := x.ask("*", "PUT /generators/a", body, "Content-Type", kind)
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

// A change is answered with what may undo it.
func TestChangesThatMayBeUndone(t *testing.T) {
	f := newFixture(t)
	f.store.DB.Undone = "a replica"
	const want = `"not_promised":"a replica"`
	for _, request := range []string{
		"PUT /generators/orders", "POST /generators/orders/raise?at_least=200", "DELETE /generators/orders?force=true",
	} {
		if got := f.ask("*", request, "orders sequence").Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", request, got)
		}
	}
	if got := f.ask("*", "GET /generators/orders", "").Body.String(); strings.Contains(got, want) {
		t.Error(got)
	}
}

// A change is answered with the daemons that have not confirmed it.
func TestUnconfirmedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.ask("*", "PUT /generators/orders", "orders sequence")
		f.store.DB.Late = []counter.Daemon{{Name: "host/7", Silent: 3 * time.Second}}
		want := `"unconfirmed":["daemon host/7 has not confirmed it, and was last heard of 3s ago: `
		for _, request := range []string{
			"POST /generators/orders/raise?at_least=200",
			"DELETE /generators/orders?force=true",
		} {
			if got := f.ask("*", request, "").Body.String(); !strings.Contains(got, want) {
				t.Errorf("%s: %s", request, got)
			}
		}
		if got := f.ask("*", "GET /generators/orders", "").Body.String(); strings.Contains(got, "unconfirmed") {
			t.Error(got)
		}
	})
}

// A record that is damaged is shown, refused, and made anew of what the daemon serves, or of the request.
func TestADamagedRecord(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"orders", "evens"} {
		f.ask("*", "PUT /generators/"+name, name+" sequence step=2 offset=2")
		f.store.DB.Damage(name)
	}
	for _, c := range []struct {
		request, body string
		status        int
		answer        string
	}{
		{"GET /generators", "", 200, `"name":"orders","definition":"","next":"0","floor":"0","left":"0","state":"dam`},
		{"GET /generators", "", 200, `"problems":["the record is damaged: sequence evens`},
		{"GET /generators/orders", "", 409, "the record is damaged"},
		{"PUT /generators/orders", "orders sequence step=2 offset=2", 409, "the record is damaged"},
		{"DELETE /generators/orders?force=true", "", 409, "the record is damaged"},
		{"POST /generators/orders/raise?at_least=70", "", 409, "-name 'orders sequence ...', or over HTTP"},
		{"POST /generators/orders/raise?at_least=70&definition=evens+sequence", "", 400, "the path names \"orders\""},
		{"POST /generators/orders/raise?at_least=70&definition=orders+sequence+step=2+offset=2", "", 200, `"next":"70"`},
		{"POST /generators/evens/raise?at_least=70", "", 200, `"evens sequence start=1 step=2 offset=2","next":"70"`},
	} {
		if c.request == "POST /generators/evens/raise?at_least=70" {
			def, err := kinds.Parse("evens sequence step=2 offset=2")
			if err != nil {
				t.Fatal(err)
			}
			f.served = map[string]kinds.Definition{"evens": def}
		}
		if w := f.ask("*", c.request, c.body); w.Code != c.status || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s: %d %s", c.request, w.Code, w.Body)
		}
	}
}
