package script

import "github.com/katsubushi/katsubushi/v3/workerid"

// A Memory puts what a daemon knows of its own requests into its calls. The zero Memory has sent none. It is not safe for concurrent use.
type Memory struct{ requests workerid.Requests }

// Acquiring notes that an Acquire is on its way and fills in its New and Known.
func (m *Memory) Acquiring(c Acquire) Acquire {
	c.Known, c.New = m.requests.Acquiring(c.Owner, c.Token)
	return c
}

// Acquired notes the answer, if whoever asked heard it.
func (m *Memory) Acquired(c Acquire, r Acquired) {
	m.requests.Acquired(c.Owner, c.Token, r.Worker, r.History)
}

// NotAcquired notes that the request certainly had no effect.
func (m *Memory) NotAcquired(c Acquire) { m.requests.NotAcquired(c.Owner, c.Token) }

// Extending notes that an Extend of what is held is on its way and fills in its Lanes.
func (m *Memory) Extending(c Extend, held []workerid.Grant) Extend {
	for _, g := range held {
		known, history := m.requests.Extending(g, c.Token)
		c.Lanes = append(c.Lanes, Lane{Grant: g, History: history, Known: known})
	}
	return c
}

// Extended notes the answer.
func (m *Memory) Extended(c Extend, r Extended) {
	for i, l := range c.Lanes {
		if r.Results[i].Err == nil {
			m.requests.Extended(l.Grant, r.History)
		} else {
			m.requests.NotExtended(l.Grant, c.Token)
		}
	}
}

// Heard notes that whoever asked heard the answer, and that the grants in it count.
func (m *Memory) Heard(c Extend, r Extended) {
	for i, l := range c.Lanes {
		if r.Results[i].Err == nil {
			m.requests.Heard(l.Grant, c.Token)
		}
	}
}

// NotExtended notes that the request certainly had no effect.
func (m *Memory) NotExtended(c Extend) {
	for _, l := range c.Lanes {
		m.requests.NotExtended(l.Grant, c.Token)
	}
}

// Releasing fills in the Known of a Release, and forgets the lease.
func (m *Memory) Releasing(c Release) Release {
	c.Known = m.requests.Releasing(c.Grant)
	return c
}
