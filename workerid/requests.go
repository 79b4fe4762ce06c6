package workerid

import "slices"

// remembered is how many unanswered requests are kept. Older ones are forgotten. If a forgotten one
// was the last that took effect, the lease counts as lost.
const remembered = 64

// Requests remembers the request ids that a store's client has sent. A store writes into each
// record the id of the last request that changed it. To extend a lease, a client must list the
// request ids that the record may have: the last one that was answered, and all since. A copy of
// the process knows different ones, so the store notices it. The zero value has sent nothing. Not
// safe for concurrent use.
type Requests struct {
	leases  map[holding]known
	unheard map[string][]string // by owner: the request ids of unanswered acquisitions
}

type holding struct {
	owner  string
	worker uint64
}

type known struct {
	ids         []string // the last request id that was answered, then those sent since
	incarnation string   // of the store, from its last answer; empty for stores that have none
}

// Acquiring records that an acquisition is sent. It returns the owner's earlier ones that may have
// been carried out, and whether this is the owner's first.
func (m *Requests) Acquiring(owner, id string) (before []string, first bool) {
	if m.unheard == nil {
		m.unheard = map[string][]string{}
	}
	ids, old := m.unheard[owner]
	m.unheard[owner] = keep(ids, id)
	return slices.Clone(ids), !old
}

// Acquired records the answer, if the caller got it. It forgets earlier acquisitions: one of them may
// have been granted the same window first, and a fail-over that brings that one back must not lead to
// the window being granted again.
func (m *Requests) Acquired(owner, id string, worker uint64, incarnation string) {
	m.unheard[owner] = nil
	m.set(holding{owner, worker}, known{[]string{id}, incarnation})
}

// NotAcquired records that the request certainly had no effect.
func (m *Requests) NotAcquired(owner, id string) { m.unheard[owner] = without(m.unheard[owner], id) }

// Extending records that an extension is sent. It returns the request ids that the record may have,
// and the incarnation of the store.
func (m *Requests) Extending(g Grant, id string) (ids []string, incarnation string) {
	h := holding{g.Owner, g.Worker}
	l := m.leases[h]
	m.set(h, known{keep(l.ids, id), l.incarnation})
	return slices.Clone(l.ids), l.incarnation
}

// Extended records that the request succeeded.
func (m *Requests) Extended(g Grant, incarnation string) {
	h := holding{g.Owner, g.Worker}
	m.set(h, known{m.leases[h].ids, incarnation})
}

// Heard records that the caller learned of the success and that the grant counts. Only now may earlier
// request ids be forgotten; until then a fail-over may bring back a record that has one.
func (m *Requests) Heard(g Grant, id string) {
	h := holding{g.Owner, g.Worker}
	l := m.leases[h]
	if at := slices.Index(l.ids, id); at >= 0 {
		m.set(h, known{l.ids[at:], l.incarnation})
	}
}

// NotExtended records that the request certainly had no effect. A lost lease may be asked about again,
// with the same answer.
func (m *Requests) NotExtended(g Grant, id string) {
	h := holding{g.Owner, g.Worker}
	m.set(h, known{without(m.leases[h].ids, id), m.leases[h].incarnation})
}

// Releasing returns the request ids that the record may have, and forgets the lease, because a release
// is sent only once.
func (m *Requests) Releasing(g Grant) (ids []string) {
	h := holding{g.Owner, g.Worker}
	ids = m.leases[h].ids
	delete(m.leases, h)
	return ids
}

func (m *Requests) set(h holding, l known) {
	if m.leases == nil {
		m.leases = map[holding]known{}
	}
	m.leases[h] = l
}

func keep(ids []string, id string) []string {
	ids = append(slices.Clone(ids), id)
	if len(ids) > remembered {
		ids = slices.Delete(ids, 1, 2) // keep the first: it may be the one that was answered
	}
	return ids
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(t string) bool { return t == id })
}
