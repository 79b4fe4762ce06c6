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

func (a api) routeGenerators(mux *http.ServeMux) {
	a.routeFor(mux, "GET /generators", a.list, func(request) bool { return true }) // it shows what the user administers
	a.sequence(mux, "GET /generators/{name}", func(r request, s counter.Admin) (counter.Record, error) {
		return s.Show(r.Context(), r.name)
	})
	a.route(mux, "PUT /generators/{name}", a.define)
	a.sequence(mux, "DELETE /generators/{name}", func(r request, s counter.Admin) (counter.Record, error) {
		return stores.Retire(r.Context(), s, r.name, r.URL.Query().Get("force") == "true", "?force=true")
	})
	a.sequence(mux, "POST /generators/{name}/raise", func(r request, s counter.Admin) (counter.Record, error) {
		atLeast, err := stores.ParseFloor(r.URL.Query().Get("at_least"))
		if err != nil {
			return counter.Record{}, wrong{err}
		}
		return stores.Raise(r.Context(), s, r.name, atLeast)
	})
	a.sequence(mux, "POST /generators/{name}/adopt", func(r request, s counter.Admin) (counter.Record, error) {
		if !a.Counters.Files() {
			return counter.Record{}, stores.ErrNotFiles
		}
		return stores.Adopt(r.Context(), s, r.name)
	})
}

// sequence routes what is done with one record, and answered with it.
func (a api) sequence(mux *http.ServeMux, pattern string, do func(r request, s counter.Admin) (counter.Record, error)) {
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
		return stores.Show(record), http.StatusOK, nil
	})
}

// define records the definition in the body. Its name is that of the path.
func (a api) define(r request) (any, int, error) {
	var body struct{ Definition string }
	if err := r.read(&body, &body.Definition); err != nil {
		return nil, 0, err
	}
	def, err := a.Counters.ParseSequence(body.Definition)
	if err == nil && def.Name != r.name {
		err = fmt.Errorf("%q defines %s, and the path names %.70q", def, def.Name, r.name)
	}
	if err != nil {
		return nil, 0, wrong{err}
	}
	record, created, err := a.Create(r.Context(), def)
	switch {
	case err != nil:
		return nil, 0, err
	case created:
		return stores.Show(record), http.StatusCreated, nil
	}
	return stores.Show(record), http.StatusOK, nil
}

// list shows all records that the user administers, and what is wrong with others.
func (a api) list(r request) (any, int, error) {
	s, err := a.Sequences()
	if err != nil {
		return nil, 0, err
	}
	records, err := s.List(r.Context())
	answer := struct {
		Generators []stores.Shown `json:"generators"`
		Problems   []string       `json:"problems,omitempty"`
	}{Generators: []stores.Shown{}}
	for _, record := range records {
		if r.administers(record.Name) {
			answer.Generators = append(answer.Generators, stores.Show(record))
		}
	}
	switch all := r.administers(everything); {
	case !all && len(answer.Generators) == 0:
		return nil, 0, id.NotPermitted(everything)
	case err != nil && len(records) == 0:
		return nil, 0, err
	case err != nil && all:
		answer.Problems = strings.Split(err.Error(), "\n")
	}
	return answer, http.StatusOK, nil
}
