// Package httpapi answers over HTTP what the memcached port answers: ids and statistics; and what only HTTP is asked: health,
// readiness and metrics. Nothing that it serves changes any state.
package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// MaxIDs is the most ids that one /ids request gets, as in kayac/go-katsubushi.
const MaxIDs = 1000

// A Stat is one line of the statistics; Value is a string or a number.
type Stat struct {
	Name  string
	Value any
}

// Config says where the answers come from. The functions are called from many goroutines.
type Config struct {
	Mint     func(n int) ([]uint64, error) // n ids or an error, whose text is shown to the client
	Stats    func() []Stat                 // in the order they are shown in
	Ready    func() error                  // nil while ids are issued
	Metrics  http.Handler                  // /metrics
	Counters *Counters
}

// Counters counts requests for ids. Read it at any time.
type Counters struct {
	Requests, IDs, Refused atomic.Uint64
}

// NewServer makes the server; the caller gives it a listener and stops it. Its time-outs bound what a slow client can hold.
func NewServer(c Config) *http.Server {
	return &http.Server{
		Handler:           newHandler(c),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
	}
}

func newHandler(c Config) http.Handler {
	a := api{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /id", a.id)
	mux.HandleFunc("GET /ids", a.ids)
	mux.HandleFunc("GET /stats", a.stats)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", c.Metrics)
	return mux
}

type api struct{ Config }

func (a api) id(w http.ResponseWriter, r *http.Request) {
	ids, ok := a.mint(w, 1)
	switch {
	case !ok:
	case wantsJSON(r):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"%d"}`, ids[0])
	default:
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, ids[0])
	}
}

func (a api) ids(w http.ResponseWriter, r *http.Request) {
	n := 1
	if s := r.URL.Query().Get("n"); s != "" { // FormValue would take in a body, whatever its size
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > MaxIDs {
			http.Error(w, fmt.Sprintf("n=%.20q: 1 to %d allowed", s, MaxIDs), http.StatusBadRequest)
			return
		}
	}
	ids, ok := a.mint(w, n)
	if !ok {
		return
	}
	// As strings: a JavaScript number holds only 53 bits.
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = strconv.FormatUint(id, 10)
	}
	if wantsJSON(r) {
		writeJSON(w, map[string][]string{"ids": text})
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, strings.Join(text, "\n"))
}

func (a api) mint(w http.ResponseWriter, n int) ([]uint64, bool) {
	a.Counters.Requests.Add(1)
	ids, err := a.Mint(n)
	if err != nil {
		a.Counters.Refused.Add(uint64(n))
		unavailable(w, err)
		return nil, false
	}
	a.Counters.IDs.Add(uint64(n))
	return ids, true
}

func (a api) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := a.Ready(); err != nil {
		unavailable(w, err)
		return
	}
	io.WriteString(w, "ready\n")
}

func (a api) stats(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("{")
	for i, s := range a.Stats() {
		if i > 0 {
			b.WriteString(",")
		}
		name, _ := json.Marshal(s.Name)
		value, err := json.Marshal(s.Value)
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

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
