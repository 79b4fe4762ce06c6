package script

import "github.com/katsubushi/katsubushi/v3/workerid"

// A Memory adds to each call what the daemon knows about its own earlier requests. The zero Memory has
// sent none. It is not safe for concurrent use.
type Memory struct{ requests workerid.Requests }

// Acquiring records that an Acquire is sent and fills in its New and Known.
func (m *Memory) Acquiring(c Acquire) Acquire {
	c.Known, c.New = m.requests.Acquiring(c.Owner, c.RequestID)
	return c
}

// Acquired records the answer, if the caller got it.
func (m *Memory) Acquired(c Acquire, r Acquired) {
	m.requests.Acquired(c.Owner, c.RequestID, r.Worker, r.Incarnation)
}

// NotAcquired records that the request certainly had no effect.
func (m *Memory) NotAcquired(c Acquire) { m.requests.NotAcquired(c.Owner, c.RequestID) }

// Extending records that an Extend of these grants is sent and fills in its Lanes.
func (m *Memory) Extending(c Extend, held []workerid.Grant) Extend {
	for _, g := range held {
		known, incarnation := m.requests.Extending(g, c.RequestID)
		c.Lanes = append(c.Lanes, Lane{Grant: g, Incarnation: incarnation, Known: known})
	}
	return c
}

// Extended records the answer.
func (m *Memory) Extended(c Extend, r Extended) {
	for i, l := range c.Lanes {
		if r.Results[i].Err == nil {
			m.requests.Extended(l.Grant, r.Incarnation)
		} else {
			m.requests.NotExtended(l.Grant, c.RequestID)
		}
	}
}

// Heard records that the caller got the answer and that its grants count.
func (m *Memory) Heard(c Extend, r Extended) {
	for i, l := range c.Lanes {
		if r.Results[i].Err == nil {
			m.requests.Heard(l.Grant, c.RequestID)
		}
	}
}

// NotExtended records that the request certainly had no effect.
func (m *Memory) NotExtended(c Extend) {
	for _, l := range c.Lanes {
		m.requests.NotExtended(l.Grant, c.RequestID)
	}
}

// Releasing fills in a Release's Known and forgets the lease.
func (m *Memory) Releasing(c Release) Release {
	c.Known = m.requests.Releasing(c.Grant)
	return c
}
