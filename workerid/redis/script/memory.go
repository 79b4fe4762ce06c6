package script

import (
	"slices"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// remembered is how many tokens without an answer are kept. Older ones are forgotten; if one of them should be the last that took
// effect, the lease counts as lost.
const remembered = 64

// A Memory is what a daemon knows of its own requests: which of them the records in Redis may bear the tokens of. The zero Memory has
// sent none. It is not safe for concurrent use.
type Memory struct {
	leases  map[holding]lease
	unheard map[string][]string // by owner: the tokens of acquisitions that got no answer
}

type holding struct {
	owner  string
	worker uint64
}

type lease struct {
	known   []string // the token of the last request that was heard of, then those since
	history string   // of the last answer
}

// Acquiring notes that an Acquire is on its way and fills in its New and Known.
func (m *Memory) Acquiring(c Acquire) Acquire {
	if m.unheard == nil {
		m.unheard = map[string][]string{}
	}
	known, old := m.unheard[c.Owner]
	c.New, c.Known = !old, slices.Clone(known)
	m.unheard[c.Owner] = keep(known, c.Token)
	return c
}

// Acquired notes the answer, if whoever asked heard it. Acquisitions from before are of no more use: what the answer grants may have been
// granted to one of them first, and must not be once more when a fail-over brings that back.
func (m *Memory) Acquired(c Acquire, r Acquired) {
	m.unheard[c.Owner] = nil
	m.set(holding{c.Owner, r.Worker}, lease{[]string{c.Token}, r.History})
}

// NotAcquired notes that the request certainly had no effect.
func (m *Memory) NotAcquired(c Acquire) {
	m.unheard[c.Owner] = without(m.unheard[c.Owner], c.Token)
}

// Extending notes that an Extend of what is held is on its way and fills in its Lanes.
func (m *Memory) Extending(c Extend, held []workerid.Grant) Extend {
	for _, g := range held {
		h := holding{g.Owner, g.Worker}
		l := m.leases[h]
		c.Lanes = append(c.Lanes, Lane{Grant: g, History: l.history, Known: slices.Clone(l.known)})
		l.known = keep(l.known, c.Token)
		m.set(h, l)
	}
	return c
}

// Extended notes the answer. What is lost may still be asked about, with the same answer.
func (m *Memory) Extended(c Extend, r Extended) {
	for i, l := range c.Lanes {
		if h := (holding{l.Grant.Owner, l.Grant.Worker}); r.Results[i].Err == nil {
			m.set(h, lease{m.leases[h].known, r.History})
		} else {
			m.forget(l, c.Token)
		}
	}
}

// Heard notes that whoever asked heard the answer, and that the grants in it count. Only then is what was written before of no more use: a
// fail-over may yet bring it back.
func (m *Memory) Heard(c Extend, r Extended) {
	for i, l := range c.Lanes {
		h := holding{l.Grant.Owner, l.Grant.Worker}
		known := m.leases[h].known
		if at := slices.Index(known, c.Token); r.Results[i].Err == nil && at >= 0 {
			m.set(h, lease{known[at:], m.leases[h].history})
		}
	}
}

// NotExtended notes that the request certainly had no effect.
func (m *Memory) NotExtended(c Extend) {
	for _, l := range c.Lanes {
		m.forget(l, c.Token)
	}
}

func (m *Memory) forget(l Lane, token string) {
	h := holding{l.Grant.Owner, l.Grant.Worker}
	m.set(h, lease{without(m.leases[h].known, token), m.leases[h].history})
}

// Releasing fills in the Known of a Release, and forgets the lease: a release is sent once.
func (m *Memory) Releasing(c Release) Release {
	h := holding{c.Grant.Owner, c.Grant.Worker}
	c.Known = m.leases[h].known
	delete(m.leases, h)
	return c
}

// Clone is the memory of a copy of the process.
func (m *Memory) Clone() *Memory {
	c := &Memory{leases: map[holding]lease{}, unheard: map[string][]string{}}
	for h, l := range m.leases {
		c.leases[h] = lease{slices.Clone(l.known), l.history}
	}
	for owner, tokens := range m.unheard {
		c.unheard[owner] = slices.Clone(tokens)
	}
	return c
}

func (m *Memory) set(h holding, l lease) {
	if m.leases == nil {
		m.leases = map[holding]lease{}
	}
	m.leases[h] = l
}

func keep(tokens []string, token string) []string {
	tokens = append(slices.Clone(tokens), token)
	if len(tokens) > remembered {
		tokens = slices.Delete(tokens, 1, 2) // the first may be the one that was answered
	}
	return tokens
}

func without(tokens []string, token string) []string {
	return slices.DeleteFunc(slices.Clone(tokens), func(t string) bool { return t == token })
}
