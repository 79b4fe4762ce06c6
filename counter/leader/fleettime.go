package leader

import (
	"cmp"
	"slices"
	"time"
)

// What time it is, for those who lead sequences of timestamps. Each daemon that knows one of these stamps its time
// of day into the Board when it renews. The lower median of these is the fleet's time, so that one clock that is
// wrong moves nothing. Of two daemons either may be wrong: the earlier time counts.

// MaxSkew is how far ahead of the fleet's time a leader's own clock counts.
const MaxSkew = time.Second

const (
	wrong         = 2 * MaxSkew     // how far from the fleet's time a clock is wrong. A stamp is read up to a second late
	wrongFor      = 3 * time.Second // and for how long,
	wrongRenewals = 3               // over so many renewals, before the daemon leads no timestamps
	cold          = 3 * time.Second // for which a daemon that has seen no other's time claims no timestamps
)

// fleetTime is what a Machine knows of the time.
type fleetTime struct {
	timed    [MaxGroups]bool // groups of timestamps that have some
	wall     int64           // Unix ns,
	told     int64           // and the moment to which it belongs; 0 = none was told
	offset   int64           // Unix ns of the fleet minus moments; 0 = not known
	warm     bool            // another daemon's time was seen
	born     int64           // when the first answer came
	apart    int64           // ns by which this daemon's clock is ahead of the fleet's time
	since    int64           // since when apart has been more than wrong; 0 = it is not
	renewals int             // renewals since then
}

// Tell says what the time of day is at a moment, Unix ns. A driver calls it before each Next.
func (m *Machine) Tell(now, wall int64) { m.told, m.wall = now, wall }

// SetTimed says that a group of timestamps has some. It is led only by daemons whose clock is not wrong.
func (m *Machine) SetTimed(group int) { m.timed[group] = true }

// stamp returns the Change's Stamp, or 0 if there are no timestamps.
func (m *Machine) stamp() int64 {
	if m.told == 0 || m.timed == [MaxGroups]bool{} {
		return 0
	}
	return m.wall / int64(time.Millisecond)
}

// mayLead reports whether this daemon may begin to lead a group, as far as its clock is concerned.
func (m *Machine) mayLead(group int) bool {
	return !Timed(group) || m.timed[group] && !m.off() && (m.warm || m.at >= m.born+int64(cold))
}

// off reports whether this daemon's clock is wrong.
func (m *Machine) off() bool {
	return m.since != 0 && m.at-m.since >= int64(wrongFor) && m.renewals >= wrongRenewals
}

// judgeTime finds out what the fleet's time is, when an answer has come.
func (m *Machine) judgeTime(now int64) {
	if m.born == 0 {
		m.born = now
	}
	if m.told == 0 {
		return
	}
	offsets := m.votes(now)
	m.warm = m.warm || len(offsets) > 0
	own := m.wall - m.told
	offsets = append(offsets, own)
	slices.Sort(offsets)
	m.offset = offsets[(len(offsets)-1)/2]
	m.apart = own - m.offset
	switch beyond := m.apart > int64(wrong) || -m.apart > int64(wrong); {
	case !beyond:
		m.since = 0
	case m.since == 0:
		m.since, m.renewals = now, 0
	}
	if !m.off() || len(m.alive(now, Groups)) == 0 {
		return
	}
	for g := range m.groups { // others shall lead those
		if at := &m.groups[g]; Timed(g) && at.phase == leading {
			at.asked = true
		}
	}
}

// votes returns the offsets of the other daemons that have stamped their time within TTL: one for each address, the
// newest, because a daemon that was restarted is still one host. Of a stamp that was there already when this daemon
// first looked it may be of any age.
func (m *Machine) votes(now int64) (offsets []int64) {
	newest := map[string]sighting{}
	for _, n := range m.known.Nodes {
		s := m.nodes[n.ID]
		if n.ID == m.me.ID || n.Redis == m.me.Redis && n.Redis != "" || n.Stamp == 0 || !s.changed ||
			now-s.at >= int64(TTL) {
			continue
		}
		s.stamp = n.Stamp
		if by := cmp.Or(n.Redis, n.ID); s.at >= newest[by].at {
			newest[by] = s
		}
	}
	for _, s := range newest {
		offsets = append(offsets, s.stamp*int64(time.Millisecond)-s.at)
	}
	return offsets
}
