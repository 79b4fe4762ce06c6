package sim

import (
	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A Faulty is what a mutant of the pool does, for whoever has another world than this one.
type Faulty struct {
	Rules   cas.Rules
	Commit  func(s *memcas.Server, ch pool.Change) pool.Change // what arrives at the server instead; nil = the same
	AnyConn bool                                               // a write goes over whichever connection there is
	OneName bool                                               // connections have one name
	Stale   bool                                               // versions are compared, of whichever connection
}

// FaultyOf returns what a mutant does.
func FaultyOf(m Mutant, r pool.Rules) Faulty {
	c := &poolClient{p: &casPool{}, wire: &poolWire{}}
	c.session.Rules = r
	if mutate := poolMutants[m]; mutate != nil {
		mutate(c, r)
	}
	x := c.wire
	f := Faulty{
		Rules: c.session.Rules, AnyConn: x.faults.anyConn, OneName: x.faults.oneName != nil, Stale: x.client.Stale,
	}
	if x.faults.commit != nil {
		f.Commit = func(s *memcas.Server, ch pool.Change) pool.Change {
			c.p.server = s
			return x.faults.commit(ch)
		}
	}
	return f
}
