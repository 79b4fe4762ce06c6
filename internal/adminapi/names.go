package adminapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

func (a api) routeNames(mux *http.ServeMux) {
	a.routeFor(mux, "GET /generators", a.list, func(request) bool { return true }) // it shows what the user administers
	a.sequence(mux, "GET /generators/{name}", func(r request, s counter.Admin) (counter.Record, error) {
		return s.Show(r.Context(), r.name)
	})
	a.route(mux, "PUT /generators/{name}", a.define)
	a.change(mux, "DELETE /generators/{name}", func(r request, s counter.Admin) (counter.Record, error) {
		return stores.Retire(r.Context(), s, r.name, r.URL.Query().Get("force") == "true", "?force=true")
	})
	a.change(mux, "POST /generators/{name}/raise", func(r request, s counter.Admin) (counter.Record, error) {
		atLeast, err := stores.ParseFloor(r.URL.Query().Get("at_least"))
		if err != nil {
			return counter.Record{}, wrong{err}
		}
		def := a.Served(r.name)
		if line := r.URL.Query().Get("definition"); line != "" {
			if def, err = a.parse(r.name, line); err != nil {
				return counter.Record{}, err
			}
		}
		if r.URL.Query().Get("force") != "true" {
			if err := stores.FarAhead(r.Context(), s, r.name, atLeast, "?force=true"); err != nil {
				return counter.Record{}, err
			}
		}
		return stores.Raise(r.Context(), s, r.name, atLeast, func() kinds.Definition { return def })
	})
	a.change(mux, "POST /generators/{name}/adopt", func(r request, s counter.Admin) (counter.Record, error) {
		if !a.Counters.Files() {
			return counter.Record{}, stores.ErrNotFiles
		}
		return stores.Adopt(r.Context(), s, r.name)
	})
}

// A verb does something with one record.
type verb = func(r request, s counter.Admin) (counter.Record, error)

// change routes a change to one record. It is answered with the record, once all daemons have confirmed the
// change, or with the names of those that have not.
func (a api) change(mux *http.ServeMux, pattern string, do verb) {
	a.record(mux, pattern, do, func(r request, s counter.Admin, shown *stores.Shown) {
		shown.NotPromised = stores.NotPromised(r.Context(), s)
		shown.Unconfirmed = stores.Confirm(r.Context(), s)
	})
}

// sequence routes what is done with one record, and answered with it.
func (a api) sequence(mux *http.ServeMux, pattern string, do verb) {
	a.record(mux, pattern, do, func(request, counter.Admin, *stores.Shown) {})
}

func (a api) record(
	mux *http.ServeMux, pattern string, do verb, confirm func(r request, s counter.Admin, shown *stores.Shown),
) {
	a.route(mux, pattern, func(r request) (any, int, error) {
		if err := kinds.CheckName(r.name); err != nil {
			return nil, 0, wrong{err}
		}
		s, err := a.Sequences()
		if err != nil {
			return nil, 0, err
		}
		record, err := do(r, s)
		if err != nil {
			return nil, 0, err
		}
		shown := stores.Show(record)
		confirm(r, s, &shown)
		return shown, http.StatusOK, nil
	})
}

// define records the definition in the body. Its name is that of the path.
func (a api) define(r request) (any, int, error) {
	var body struct{ Definition string }
	if err := r.read(&body, &body.Definition); err != nil {
		return nil, 0, err
	}
	def, err := a.parse(r.name, body.Definition)
	if err != nil {
		return nil, 0, err
	}
	record, created, err := a.Create(r.Context(), def)
	switch {
	case err != nil:
		return nil, 0, err
	case created:
		shown := stores.Show(record)
		if s, err := a.Sequences(); err == nil {
			shown.NotPromised = stores.NotPromised(r.Context(), s)
		}
		return shown, http.StatusCreated, nil
	}
	return stores.Show(record), http.StatusOK, nil
}

// parse reads the definition of a sequence that the path names.
func (a api) parse(name, line string) (kinds.Definition, error) {
	def, err := a.Counters.ParseSequence(line)
	if err == nil && def.Name != name {
		err = fmt.Errorf("%q defines %s, and the path names %.70q", def, def.Name, name)
	}
	if err != nil {
		return def, wrong{err}
	}
	return def, nil
}

// list shows all records that the user administers, and what is wrong with others.
func (a api) list(r request) (any, int, error) {
	s, err := a.Sequences()
	if err != nil {
		return nil, 0, err
	}
	records, err := s.List(r.Context())
	if err != nil {
		return nil, 0, err
	}
	answer := struct {
		Names    []stores.Shown `json:"generators"`
		Problems []string       `json:"problems,omitempty"`
	}{Names: []stores.Shown{}}
	for _, record := range records {
		if r.administers(record.Name) {
			answer.Names = append(answer.Names, stores.Show(record))
		}
	}
	switch all := r.administers(everything); {
	case !all && len(answer.Names) == 0:
		return nil, 0, id.NotPermitted(everything)
	case all && stores.Faults(records) != nil:
		answer.Problems = strings.Split(stores.Faults(records).Error(), "\n")
	}
	return answer, http.StatusOK, nil
}
