// Package httpapi answers over HTTP what the memcached port answers: ids and statistics; and what
// only HTTP is asked: health, readiness, metrics and the status page. Nothing that it serves changes any state.
//
// Where users must log in, they must for ids alone. Probes and scrapers would send a password in
// clear every few seconds, and what they are shown is no secret: keep the port
// from those who should not see it.
package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
)

// maxIDs is the most ids that one /ids request gets, as in kayac/go-katsubushi.
const maxIDs = 1000

// Config says where the answers come from. The functions are called from many goroutines.
type Config struct {
	// Batch issues n ids for a key, or returns an error, whose text is shown to the client. An empty key
	// stands for the default kind of id. It may wait, but not when ctx has ended.
	Batch    func(ctx context.Context, key []byte, n int) ([]id.Run, error)
	Declared func(name []byte) bool // tells names from keys that stand for the default kind
	Stats    func() []figure.Figure // in the order they are shown in
	Ready    func() error           // nil while ids are issued
	Notes    func() []string        // lines that /readyz adds; nil = none
	Metrics  http.Handler           // /metrics
	Page     http.Handler           // /
	Runbook  http.Handler           // /runbook; nil = there is none
	Counters *Counters
	// Busy is called a few times a second while there are more than 1,000 requests a second; nil = nobody need know.
	Busy func()

	// Login finds the users who may have ids; nil = no login is needed.
	Login Login

	MaxConnections int         // see connections for what becomes of more; 0 = no limit
	Log            *log.Logger // what the server complains about; nil = the standard logger
}

// Counters counts requests for ids, and connections. Read it at any time.
type Counters struct {
	Requests, IDs, Refused atomic.Uint64
	Logins, LoginErrors    atomic.Uint64 // requests with a user and a password; those of them that were wrong

	Connections        atomic.Int64  // open now
	ConnectionsRefused atomic.Uint64 // told that there are too many, and closed
	ConnectionsEvicted atomic.Uint64 // closed to make room while they were silent
}

// A Server limits its connections: it may serve only what its Listener returns.
type Server struct {
	*http.Server
	conns *connections
}

// NewServer makes the server; the caller gives it a listener and stops it.
func NewServer(c Config) Server {
	s := Limited(newHandler(c), c.MaxConnections, c.Counters, c.Log)
	s.conns.busy = c.Busy
	return s
}

// Limited makes a server of any handler. Its time-outs bound what a slow client can hold; see
// connections for what becomes of more than maxConnections, and Config.Log.
func Limited(h http.Handler, maxConnections int, n *Counters, log *log.Logger) Server {
	conns := newConnections(maxConnections, n)
	s := newServer(conns.limit(h), log)
	s.ConnState, s.ConnContext = conns.changed, conns.know
	return Server{s, conns}
}

// Listener makes a listener for the server of one that accepts everything. It owns that.
func (s Server) Listener(ln net.Listener) net.Listener {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	at, ok := ln.Addr().(*net.TCPAddr)
	s.conns.local = s.conns.local || ok && at.IP.IsLoopback()
	end := sync.OnceValue(ln.Close)
	s.conns.close = append(s.conns.close, end)
	s.conns.accepting++
	return listener{ln, s.conns, end}
}

// Known says which names, beside localhost and addresses, may be asked for if a listener is on loopback. Without it
// any name may be.
func (s Server) Known(names ...string) {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	s.conns.names = names
}

// Shutdown accepts nothing more, gives the connections that are open a moment for their first request,
// then does what http.Server's does.
func (s Server) Shutdown(ctx context.Context) error {
	s.SetKeepAlivesEnabled(false)
	s.conns.settle(ctx)
	return s.Server.Shutdown(ctx)
}

// newServer makes a server with the limits that all of them have.
func newServer(h http.Handler, log *log.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute, // longer than load balancers keep theirs: they should be the ones to close
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log,
	}
}

func newHandler(c Config) http.Handler {
	a := api{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /id", a.id)
	mux.HandleFunc("GET /id/{name}", a.id)
	mux.HandleFunc("GET /ids", a.ids)
	mux.HandleFunc("GET /ids/{name}", a.ids)
	mux.HandleFunc("GET /api/segment/get/{name}", a.leaf)
	mux.HandleFunc("GET /api/snowflake/get/{anything}", a.leaf) // the default kind, whatever the key, as Leaf does
	mux.HandleFunc("GET /stats", a.stats)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", c.Metrics)
	mux.Handle("GET /{$}", c.Page)
	if c.Runbook != nil {
		mux.Handle("GET /runbook", c.Runbook)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Cache-Control"] = noStore // an id is somebody's alone, and everything else is of this moment
		if r.Method == http.MethodGet && r.URL.Path == "/id" {
			a.id(w, r) // nearly all ask for this, and the mux looks for long
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// The values of headers that answers with ids share. Nobody changes them.
var (
	noStore   = []string{"no-store"}
	plainText = []string{"text/plain"}
)

type api struct{ Config }

func (a api) id(w http.ResponseWriter, r *http.Request) {
	if !a.admits(w, r) || misplaced(w, r) {
		return
	}
	runs, ok := a.mint(w, r, 1)
	switch {
	case !ok:
	case wantsJSON(r):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"%s"}`, runs[0].Append(nil, 0))
	default:
		w.Header()["Content-Type"] = plainText
		w.Write(runs[0].Append(make([]byte, 0, id.Room), 0))
	}
}

// leaf answers as Leaf does: the bare number, also as JSON. Where Leaf has status 500 it has those of
// /id. A name that is not declared gets nothing: its client counts on small numbers.
func (a api) leaf(w http.ResponseWriter, r *http.Request) {
	if !a.admits(w, r) {
		return
	}
	if name := r.PathValue("name"); name != "" && !a.Declared([]byte(name)) {
		a.Counters.Requests.Add(1)
		a.Counters.Refused.Add(1)
		http.Error(w, visible.Text(id.UnknownName(name).Error()), http.StatusNotFound)
		return
	}
	runs, ok := a.mint(w, r, 1)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	if wantsJSON(r) {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Write(runs[0].Append(nil, 0))
}

func (a api) ids(w http.ResponseWriter, r *http.Request) {
	if !a.admits(w, r) || misplaced(w, r) {
		return
	}
	n := 1
	if s := r.URL.Query().Get("n"); s != "" { // FormValue would take in a body, whatever its size
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > maxIDs {
			http.Error(w, fmt.Sprintf("n=%.20q: 1 to %d allowed", s, maxIDs), http.StatusBadRequest)
			return
		}
	}
	runs, ok := a.mint(w, r, n)
	if !ok {
		return
	}
	ids := make([]string, 0, n)
	var text [id.Room]byte
	for _, run := range runs {
		for i := range run.N {
			ids = append(ids, string(run.Append(text[:0], i)))
		}
	}
	if wantsJSON(r) {
		writeJSON(w, map[string][]string{"ids": ids}) // strings: a JavaScript number holds only 53 bits
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, strings.Join(ids, "\n"))
}

// misplaced refuses a name in the query: who writes it there would get an id of another kind.
func misplaced(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.RawQuery == "" || r.PathValue("name") != "" {
		return false
	}
	query := r.URL.Query()
	for _, parameter := range []string{"name", "key", "generator"} {
		if query.Has(parameter) {
			http.Error(w, "the name goes into the path: "+r.URL.Path+"/x", http.StatusBadRequest)
			return true
		}
	}
	return false
}

// admits says whether a request for ids may be answered, and answers it otherwise.
func (a api) admits(w http.ResponseWriter, r *http.Request) bool {
	if fromAnotherSite(r) {
		http.Error(w, "requests from pages of other sites are refused", http.StatusForbidden)
		return false
	}
	if a.Login == nil {
		return true
	}
	who := a.Login.Admit(w, r, a.Counters)
	if who == nil {
		return false
	}
	name := r.PathValue("name")
	if name == "" {
		name = defaultName
	}
	if rights := who.Rights(); rights == nil || !rights.Permit([]byte(name), users.Get) {
		http.Error(w, visible.Text(id.NotPermitted(name).Error()), http.StatusForbidden)
		return false
	}
	return true
}

// fromAnotherSite reports whether a browser sends the request on behalf of a page of another site, which
// would use up ids that it cannot even read. Programs send neither header. For an address that was typed,
// browsers send "none".
func fromAnotherSite(r *http.Request) bool {
	switch first(r, "Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin, ok := r.Header["Origin"]
		if !ok {
			return false
		}
		page, err := url.Parse(origin[0])
		return err != nil || page.Host != r.Host
	}
	return true
}

// defaultName is the name of the default kind of id, for which the path has none.
const defaultName = "id"

// mint issues n ids for the name in the path, or answers the request with the reason why there are none. A HEAD, whose
// answer shows no id, gets the status that /readyz has: a value of a sequence would be lost.
func (a api) mint(w http.ResponseWriter, r *http.Request, n int) (runs []id.Run, ok bool) {
	if r.Method == http.MethodHead {
		if err := a.Ready(); err != nil {
			unavailable(w, err)
		}
		return nil, false
	}
	a.Counters.Requests.Add(1)
	runs, err := a.Batch(r.Context(), []byte(r.PathValue("name")), n)
	if err != nil {
		a.Counters.Refused.Add(uint64(n))
		if _, unknown := err.(id.UnknownName); unknown {
			http.Error(w, visible.Text(err.Error()), http.StatusNotFound)
		} else {
			unavailable(w, err)
		}
		return nil, false
	}
	a.Counters.IDs.Add(uint64(n))
	return runs, true
}

func (a api) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := a.Ready(); err != nil {
		unavailable(w, err)
		return
	}
	io.WriteString(w, "ready\n")
	if a.Notes != nil {
		for _, note := range a.Notes() {
			io.WriteString(w, visible.Text(note)+"\n")
		}
	}
}

func (a api) stats(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("{")
	for i, s := range a.Stats() {
		if i > 0 {
			b.WriteString(",")
		}
		name, _ := json.Marshal(s.Stat)
		value, err := json.Marshal(s.Shown())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(&b, "\n  %s: %s", name, value)
	}
	b.WriteString("\n}\n")
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, b.String())
}

func wantsJSON(r *http.Request) bool { return strings.Contains(first(r, "Accept"), "application/json") }

// first returns what r.Header.Get does, of a header whose name is spelled as it is kept, for a third of the cost.
func first(r *http.Request, header string) string {
	if values := r.Header[header]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func unavailable(w http.ResponseWriter, err error) {
	if final, ok := err.(interface{ Final() bool }); !ok || !final.Final() {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, visible.Text(err.Error()), http.StatusServiceUnavailable)
}
