package leader

// What a Machine makes of what the Board holds.

// Saw takes keys of groups, by group, that a Watch has shown. They may be older than what is known. nil
// says only that the Board may have changed.
func (m *Machine) Saw(now int64, written map[int]Leader) {
	if written == nil {
		m.hinted = true
	}
	for g, l := range written {
		if m.call == nil {
			m.apply(now, g, l)
		} else if l.Revision > m.saw[g].Revision { // the answer may be older than this, or newer
			m.saw[g] = l
		}
	}
	m.advance(now, atOnce)
}

// apply learns one key, if it is newer than what is known. It skips a leader whose renewals were never
// seen: that one would seem to have stood still for ever, so a read learns it.
func (m *Machine) apply(now int64, g int, l Leader) {
	_, seen := m.nodes[l.ID]
	switch {
	case m.at == 0 || l.Revision <= m.known.Leaders[g].Revision:
	case l.ID != "" && !seen:
		m.hinted = true
	default:
		m.compare(now, g, l)
		m.known.Leaders[g] = l
	}
}

// learn takes a State.
func (m *Machine) learn(now int64, s State) {
	m.sight(now, &s)
	for g, l := range s.Leaders {
		m.compare(now, g, l)
	}
	m.known, m.at = s, now
}

// compare compares what the Board holds of a group with what this daemon believes.
func (m *Machine) compare(now int64, g int, l Leader) {
	at := &m.groups[g]
	if was := m.known.Leaders[g]; l.ID == "" && (at.empty == 0 || was.ID != "" || was.Revision != l.Revision) {
		at.empty = now
	}
	switch still := m.still(g, &l); {
	case at.phase == idle && l.ID == m.me.ID: // also by a claim whose answer was lost
		m.begin(now, g, l)
	case at.phase == leading && !still:
		m.stats.Lost++
		m.end(g, true)
	case at.phase == sealed && !still:
		m.stats.Handed++
		at.out = now + int64(keepOut)
		m.leave(g)
	}
}

// begin makes this daemon the leader that the Board says it is. Until is set by the first renewal that
// has compared the key: a claim is one.
func (m *Machine) begin(now int64, g int, l Leader) {
	at := &m.groups[g]
	at.term, at.until = Term{Group: g, Fence: l.Revision, Number: l.Number}, 0
	if m.stopping { // it has issued nothing
		at.phase = sealed
		return
	}
	at.phase = leading
	m.renewAt = min(m.renewAt, now)
	m.stats.Terms++
	m.events = append(m.events, Event{Term: at.term, Begins: true})
}

// sight notes which node keys have changed. It also notes the lack of a leader's key.
func (m *Machine) sight(now int64, s *State) {
	seen := make(map[string]sighting, len(s.Nodes))
	note := func(id string, revision int64) {
		old, ok := m.nodes[id]
		if !ok || old.revision != revision {
			old = sighting{revision: revision, at: now, changed: ok}
		}
		seen[id] = old
	}
	for _, n := range s.Nodes {
		note(n.ID, n.Revision)
	}
	for _, l := range s.Leaders {
		if _, ok := seen[l.ID]; !ok && l.ID != "" {
			note(l.ID, 0)
		}
	}
	m.nodes = seen
}
