package leader

import (
	"maps"
	"slices"
	"time"
)

// This file is for test/explore, which runs every schedule of a small world. It changes nothing.

// Clone is a copy of a Machine that goes on by itself. It shares what is never written to: States and Changes.
func (m *Machine) Clone() *Machine {
	c := *m
	c.nodes, c.events, c.saw = maps.Clone(m.nodes), slices.Clone(m.events), maps.Clone(m.saw)
	return &c
}

// A Visitor is shown what decides how a Machine goes on.
type Visitor interface {
	Number(int64)
	Moment(int64)   // of the Machine's clock; 0 = none
	Revision(int64) // of a key; 0 = none
	Name(string)    // of a daemon
	Offset(int64)   // Unix ns minus the Machine's clock; 0 = none
}

// Visit shows a Visitor all that decides how the Machine goes on, as far as one group is concerned. It leaves out what
// is only counted. Call it when Events was asked.
func (m *Machine) Visit(group int, v Visitor) {
	v.Moment(m.at)
	m.known.Leaders[group].visit(v)
	for _, n := range m.known.Nodes {
		v.Name(n.ID)
		v.Revision(n.Revision)
	}
	var room [4]string
	for _, id := range sorted(m.nodes, room[:0]) {
		s := m.nodes[id]
		v.Name(id)
		v.Revision(s.revision)
		v.Moment(s.at)
		v.Number(bit(s.changed))
	}
	g := &m.groups[group]
	v.Number(int64(g.phase))
	v.Number(bit(g.asked))
	v.Revision(g.term.Fence)
	for _, t := range []int64{g.until, g.empty, g.out, m.renewAt, m.pause, m.gather} {
		v.Moment(t)
	}
	v.Number(bit(m.hinted) | bit(m.stopping)<<1 | bit(m.call != nil)<<2)
	if l, ok := m.saw[group]; ok {
		l.visit(v)
	}
	if c := m.call; c != nil {
		v.Moment(c.sent)
		v.Number(bit(c.renews))
		c.Visit(group, v)
	}
	if Timed(group) {
		m.visitTime(v)
	}
}

// visitTime shows what is known of the fleet's time.
func (m *Machine) visitTime(v Visitor) {
	for _, n := range m.known.Nodes {
		if n.Stamp == 0 {
			v.Offset(0)
			continue
		}
		v.Offset(n.Stamp*int64(time.Millisecond) - m.nodes[n.ID].at)
	}
	v.Offset(m.offset)
	v.Offset(m.wall - m.told)
	v.Number(bit(m.warm))
	v.Number(int64(min(m.renewals, wrongRenewals)))
	v.Moment(m.born)
	v.Moment(m.since)
}

// Visit shows a Visitor what a Change does to one group and to node keys.
func (c *Change) Visit(group int, v Visitor) {
	v.Revision(c.Leaders[group])
	if l, ok := c.Lead[group]; ok {
		l.visit(v)
	}
	var room [4]string
	for _, id := range sorted(c.Nodes, room[:0]) {
		v.Name(id)
		v.Revision(c.Nodes[id])
	}
	for _, id := range c.Drop {
		v.Name(id)
	}
	v.Number(bit(c.Put != nil))
}

// sorted appends the keys of a map to ids.
func sorted[V any](of map[string]V, ids []string) []string {
	for id := range of {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (l Leader) visit(v Visitor) {
	v.Name(l.ID)
	v.Name(l.Heir)
	v.Revision(l.Revision)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
