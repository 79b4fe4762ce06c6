package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/fleet"
)

// maxFleet is how many bytes of a fleet a command gets. That is enough for any that has addresses as people write them.
const maxFleet = 512 << 10

// ErrNoFleet says that the daemons are not announced.
var ErrNoFleet = errors.New("this daemon knows no others: only daemons that lease their worker ids from a -store " +
	"find each other")

// Fleet returns what is known of all daemons of the fleet, or nil where they are not announced. It waits for their
// answers, but not for longer than patience.
func (o *Observer) Fleet(patience time.Duration) *fleet.Roster {
	r, announced := o.windows.Fleet(patience)
	if !announced {
		return nil
	}
	self := o.windows.Itself()
	if groups, elects := o.names.Leads(); elects {
		self.Groups = &groups
	}
	started := o.c.Started.Truncate(time.Second)
	self.Since = &started
	r.Members = append(r.Members, self)
	slices.SortStableFunc(r.Members, func(a, b fleet.Member) int { return a.Before(&b) })
	fleet.Compare(r.Members)
	return &r
}

// order puts those first that have answered.
func order(m *fleet.Member) int {
	if m.Answered() {
		return 0
	}
	return 1
}

// FleetText returns Fleet as JSON of one line, for commands.
func (o *Observer) FleetText(patience time.Duration) (string, error) {
	r := o.Fleet(patience)
	if r == nil {
		return "", ErrNoFleet
	}
	for {
		text, err := json.Marshal(r)
		if n := len(r.Members) / 2; err == nil && len(text) > maxFleet {
			slices.SortStableFunc(r.Members, func(a, b fleet.Member) int { return order(&a) - order(&b) })
			r.More += len(r.Members) - n
			r.Members, r.Problem = r.Members[:n], cmp.Or(r.Problem, fleet.Cut)
			continue
		}
		return string(text), err
	}
}
