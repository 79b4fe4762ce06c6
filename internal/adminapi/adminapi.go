// Package adminapi serves what operators do with a running daemon over HTTP: sequences, the leaders of
// order=strict, and users. What it does, and in which words, is what the command line does.
//
// The guarantee: nothing is answered, and no body is read, before a user has logged in; nothing is done
// or shown that needs the right admin for a name the user does not have. Web pages of other
// origins cannot use a browser's login: their requests are refused. Not promised: secrecy on the wire,
// since nothing here encrypts.
package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
)

const (
	// maxBody is the most bytes of a request's body.
	maxBody = 16 << 10
	// maxError is the most bytes of an error that are answered.
	maxError = 4 << 10
	// timeout bounds how long the stores are waited for.
	timeout = 10 * time.Second
)

// everything stands for all names, for users and for leaders. It cannot be a name, and only a pattern for
// everything matches it.
const everything = "*"

// Config says what is administered. The functions are called from many goroutines; their contexts end.
type Config struct {
	// Login returns who asks. If that is nil, it has answered the request.
	Login func(w http.ResponseWriter, r *http.Request) *users.Account

	// Sequences returns where they are recorded, or why that is nowhere.
	Sequences func() (counter.Admin, error)
	Counters  stores.Counters // the settings of Sequences
	// Create records a definition that Counters has parsed, as stores.Create does, and serves it. created
	// is false if it was there.
	Create func(ctx context.Context, def kinds.Definition) (r counter.Record, created bool, err error)

	// Served returns what the daemon serves under a name; without a Kind it is nothing.
	Served func(name string) kinds.Definition

	// Elector returns where leaders are elected, or why that is nowhere.
	Elector func() (stores.Elector, error)

	Users func() users.Store // where users are kept

	Log *slog.Logger // is told of every change
}

// New makes the handler.
func New(c Config) http.Handler {
	a := api{c}
	mux := http.NewServeMux()
	a.routeNames(mux)
	a.routeLeaders(mux)
	a.routeUsers(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if fromWebPage(r) {
			http.Error(w, "requests from web pages are refused", http.StatusForbidden)
			return
		}
		who := c.Login(w, r)
		if who == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), callerKey{}, who), timeout)
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// fromWebPage reports whether a browser sends the request on behalf of a page, with the password that
// its user has typed for this port. Programs send neither header; for an address that was typed,
// browsers send "none".
func fromWebPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header["Origin"] != nil || site != "" && site != "none"
}

type callerKey struct{}

type api struct{ Config }

// A request is what an operation sees.
type request struct {
	*http.Request
	who  *users.Account
	name string // of a name, or everything
}

// administers reports whether the user has the right admin for a name, or for everything.
func (r request) administers(name string) bool {
	rights := r.who.Rights()
	return rights != nil && rights.Permit([]byte(name), users.Admin)
}

// An operation returns what a request is answered with, as JSON, and the status; or an error.
type operation func(r request) (v any, status int, err error)

// route lets an operation answer the requests of a pattern. The user needs the right admin for what the
// pattern calls {name}, or else for everything.
func (a api) route(mux *http.ServeMux, pattern string, do operation) {
	a.routeFor(mux, pattern, do, func(r request) bool { return r.administers(r.name) })
}

// routeFor is route for those users alone whom may says.
func (a api) routeFor(mux *http.ServeMux, pattern string, do operation, may func(r request) bool) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, hr *http.Request) {
		hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
		r := request{hr, hr.Context().Value(callerKey{}).(*users.Account), everything}
		if name := hr.PathValue("name"); name != "" {
			r.name = name
		}
		var v any
		var status int
		err := error(id.NotPermitted(r.name))
		if may(r) {
			err = r.checkQuery()
		}
		if err == nil {
			v, status, err = do(r)
		}
		if err != nil {
			status = statusOf(err)
		}
		if hr.Method != http.MethodGet && hr.Method != http.MethodHead {
			a.Log.Info("administered", "user", r.who.Name, "peer", hr.RemoteAddr, "request", hr.Method+" "+hr.URL.Path, "status",
				status)
		}
		if err != nil {
			fail(w, err, status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	})
}

// wrong is an error of the request itself.
type wrong struct{ error }

// checkQuery refuses parameters that could be meant in two ways. URL.Query would drop what it cannot read.
func (r request) checkQuery() error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	for name, values := range query {
		if len(values) > 1 {
			err = fmt.Errorf("the parameter %.70q is given %d times", name, len(values))
		}
	}
	if err != nil {
		return wrong{err}
	}
	return nil
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, new(id.NotPermitted)):
		return http.StatusForbidden
	case errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, new(wrong)), errors.As(err, new(stores.GroupError)), is(counter.ErrOrder):
		return http.StatusBadRequest
	case is(counter.ErrUnknown), errors.As(err, new(users.MissingError)):
		return http.StatusNotFound
	case errors.As(err, new(stores.Conflict)), errors.As(err, new(*kinds.DifferentError)), counter.Certain(err):
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable // what was asked for may have been done, or not
}

// fail answers with an error, on one line.
func fail(w http.ResponseWriter, err error, status int) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	http.Error(w, string(visible.AppendLine(nil, text, maxError)), status)
}

// read reads a request's body: JSON into v, or plain text into text unless the type says that it is JSON
// or text is nil.
func (r request) read(v any, text *string) error {
	body, err := io.ReadAll(r.Body)
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	} else if err != nil {
		return wrong{err}
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" && text != nil {
		*text = string(body)
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	switch err := d.Decode(v); err {
	case nil:
	case io.EOF:
		return wrong{errors.New("JSON: the body is empty")}
	case io.ErrUnexpectedEOF:
		return wrong{errors.New("JSON: the body ends too early")}
	default:
		return wrong{err}
	}
	if _, err := d.Token(); err != io.EOF {
		return wrong{errors.New("JSON: more than one value")}
	}
	return nil
}
