package workerid

import "slices"

// remembered is how many requests without an answer are kept. Older ones are forgotten; if one of them should be the last that took
// effect, the lease counts as lost.
const remembered = 64

// Requests is what a store's client knows of its own requests. A store writes the id of the last request that changed a record into that
// record, so whoever extends a lease must say which request ids the record may bear: the last that was answered, and all since. A copy of
// the process knows other ones. The zero Requests has sent none. It is not safe for concurrent use.
type Requests struct {
	leases  map[holding]known
	unheard map[string][]string // by owner: the ids of acquisitions that got no answer
}

type holding struct {
	owner  string
	worker uint64
}

type known struct {
	ids         []string // of the last request that was heard of, then those since
	incarnation string   // of the store, in its last answer; empty where stores have none
}

// Acquiring notes that an acquisition is on its way. It returns those of the owner that may have been carried out, and whether it is its first.
func (m *Requests) Acquiring(owner, id string) (before []string, first bool) {
	if m.unheard == nil {
		m.unheard = map[string][]string{}
	}
	ids, old := m.unheard[owner]
	m.unheard[owner] = keep(ids, id)
	return slices.Clone(ids), !old
}

// Acquired notes the answer, if whoever asked heard it. Acquisitions from before are of no more use: what the answer grants may have been
// granted to one of them first, and must not be once more when a fail-over brings that back.
func (m *Requests) Acquired(owner, id string, worker uint64, incarnation string) {
	m.unheard[owner] = nil
	m.set(holding{owner, worker}, known{[]string{id}, incarnation})
}

// NotAcquired notes that the request certainly had no effect.
func (m *Requests) NotAcquired(owner, id string) { m.unheard[owner] = without(m.unheard[owner], id) }

// Extending notes that an extension is on its way. It returns the request ids that the record may bear, and the incarnation of the store.
func (m *Requests) Extending(g Grant, id string) (ids []string, incarnation string) {
	h := holding{g.Owner, g.Worker}
	l := m.leases[h]
	m.set(h, known{keep(l.ids, id), l.incarnation})
	return slices.Clone(l.ids), l.incarnation
}

// Extended notes that the request succeeded.
func (m *Requests) Extended(g Grant, incarnation string) {
	h := holding{g.Owner, g.Worker}
	m.set(h, known{m.leases[h].ids, incarnation})
}

// Heard notes that whoever asked heard of the success, and that the grant counts. Only then is what was written before of no more use: a
// fail-over may yet bring it back.
func (m *Requests) Heard(g Grant, id string) {
	h := holding{g.Owner, g.Worker}
	l := m.leases[h]
	if at := slices.Index(l.ids, id); at >= 0 {
		m.set(h, known{l.ids[at:], l.incarnation})
	}
}

// NotExtended notes that the request certainly had no effect. What is lost may still be asked about, with the same answer.
func (m *Requests) NotExtended(g Grant, id string) {
	h := holding{g.Owner, g.Worker}
	m.set(h, known{without(m.leases[h].ids, id), m.leases[h].incarnation})
}

// Releasing returns the request ids that the record may bear, and forgets the lease: a release is sent once.
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
		ids = slices.Delete(ids, 1, 2) // the first may be the one that was answered
	}
	return ids
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(t string) bool { return t == id })
}
