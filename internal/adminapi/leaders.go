package adminapi

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// Groups is how many groups of names there are, each with a leader of its own.
const Groups = 16

// AllGroups stands for every group that this daemon leads.
const AllGroups = -1

// A Leader is the daemon that issues the values of a group.
type Leader struct {
	Group   int    `json:"group"`   // 0 to Groups-1
	Leader  string `json:"leader"`  // its random id; empty = there is none now
	Address string `json:"address"` // where it is asked, host:port
	Term    uint64 `json:"term,string"`
	Here    bool   `json:"here"` // it is this daemon
}

func (a api) routeLeaders(mux *http.ServeMux) {
	a.route(mux, "GET /leaders", func(request) (any, int, error) { return a.leaders() })
	a.route(mux, "POST /leaders/{group}/demote", func(r request) (any, int, error) {
		if a.Demote == nil {
			return nil, 0, stores.ErrNoElection
		}
		group, err := parseGroup(r.PathValue("group"))
		if err == nil {
			err = a.Demote(r.Context(), group)
		}
		if err != nil {
			return nil, 0, err
		}
		return a.leaders()
	})
}

func (a api) leaders() (any, int, error) {
	if a.Leaders == nil {
		return nil, 0, stores.ErrNoElection
	}
	return struct {
		Leaders []Leader `json:"leaders"`
	}{a.Leaders()}, http.StatusOK, nil
}

func parseGroup(text string) (int, error) {
	if text == "all" {
		return AllGroups, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= Groups {
		return 0, wrong{fmt.Errorf("%.20q: a group, 0 to %d, or all", text, Groups-1)}
	}
	return n, nil
}
