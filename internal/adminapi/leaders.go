package adminapi

import (
	"net/http"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// A shownLeader is who leads a group of names.
type shownLeader struct {
	stores.Led
	ID   string `json:"id"` // random, another one after each restart
	Term uint64 `json:"term,string"`
}

func (a api) routeLeaders(mux *http.ServeMux) {
	a.election(mux, "GET /leaders", func(r request, e stores.Elector) (any, error) {
		now, err := stores.Leaders(r.Context(), e)
		list := make([]shownLeader, len(now.Leaders))
		for g, l := range now.Leaders {
			list[g] = shownLeader{stores.Led{Group: g, Leader: l.Redis}, l.ID, l.Number}
		}
		return map[string]any{"leaders": list}, err
	})
	a.election(mux, "POST /leaders/{which}/demote", func(r request, e stores.Elector) (any, error) {
		done, err := stores.HandOver(r.Context(), e, r.PathValue("which"))
		return map[string]any{"demoted": done}, err
	})
}

// election routes what is done where leaders are elected.
func (a api) election(mux *http.ServeMux, pattern string, do func(r request, e stores.Elector) (any, error)) {
	a.route(mux, pattern, func(r request) (any, int, error) {
		e, err := a.Elector()
		if err != nil {
			return nil, 0, err
		}
		v, err := do(r, e)
		return v, http.StatusOK, err
	})
}
