package leader

import (
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// The times of an election. valid is shorter than TTL by what two clocks may differ in rate.
const (
	TTL      = 5 * time.Second        // after which a leader that has not renewed may be replaced
	valid    = TTL * 9 / 10           // for which a leader may answer after a renewal was sent
	every    = time.Second            // between two renewals
	Patience = time.Second            // for which an answer is waited for
	look     = 500 * time.Millisecond // after an answer, to see soon who renews no more
	spread   = 25 * time.Millisecond  // before a claim, for each group that the daemon leads already
	keepOut  = 2 * time.Second        // for which a daemon does not claim what it has handed over
	stale    = time.Minute            // after which a node key that does not change is deleted
	retry    = 250 * time.Millisecond // after a call that failed
	again    = 20 * time.Millisecond  // after a Change that came too late
	gather   = 10 * time.Millisecond  // for groups that end together to be sealed, so that one Change hands them over
)

// atOnce is how many groups end at the same time, so that the others are served while the many blocks of these
// are given back.
const atOnce = 2

// A Machine decides for one daemon which groups to claim, how long it leads them, and when it steps
// down. It does no I/O and reads no clock: a Runner, or a simulation, drives it. Only one goroutine at
// a time may call its methods. All moments are ns of one clock that never goes back, above 0.
//
// What a driver must do:
//
//   - Read the clock before Next, and carry out its Change afterwards. A later reading would let two
//     daemons lead.
//   - Read the clock after the State came, and before Answer. If no answer comes for Patience, call
//     Answer with an error, and drop whatever comes later.
//   - After each call of any method act on Events, in their order: for each End stop issuing within the
//     Term, seal its blocks, give them back within the Term, and then call Ended. Then ask Next again.
//   - Issue within a Term only for requests that arrived before Until(group), asked for when they are
//     answered; and only from blocks that were reserved within the Term.
type Machine struct {
	me     Node
	known  State
	at     int64 // when known was answered; 0 = nothing is known
	nodes  map[string]sighting
	groups [MaxGroups]group
	events []Event

	call     *call          // under way
	renewAt  int64          // when the next renewal is due
	pause    int64          // before that nothing is called
	hinted   bool           // known may be old
	saw      map[int]Leader // while the call is under way, see Saw
	gather   int64          // until then a hand-over waits for groups that are ending
	stopping bool
	stats    Stats
	fleetTime
}

// A sighting is what is known of a node key, or of the lack of one.
type sighting struct {
	revision int64
	at       int64 // when an answer first showed this revision
	changed  bool  // an earlier answer showed another one: the daemon ran since then
	stamp    int64 // see votes
}

// A phase says where this daemon stands with a group.
type phase int

const (
	idle    phase = iota // it does not lead
	leading              // its Term has begun
	ending               // it has to stop issuing; Ended says when it has
	sealed               // the group is to be handed over. There is no way back
)

type group struct {
	phase phase
	asked bool // to be handed over, when it is its turn
	term  Term
	until int64
	empty int64 // when an answer first showed that no daemon leads, with the present revision
	out   int64 // before that this daemon does not claim it, unless it is the heir
}

// A call is a Change under way.
type call struct {
	Change
	sent   int64
	renews bool // it writes the node key
}

// An Event tells a driver that a Term begins or ends.
type Event struct {
	Term
	Begins bool
	Lost   bool // it ends because the group's key says something else now
}

// NewMachine makes a Machine that knows nothing. No other Machine ever may have the same ID.
func NewMachine(me Node) *Machine {
	return &Machine{me: me, nodes: map[string]sighting{}, saw: map[int]Leader{}}
}

// Until returns up to when requests of a group may be answered: those that arrived before. 0 = none.
func (m *Machine) Until(group int) int64 { return m.groups[group].until }

// Leads reports whether a Term of a group has begun and not ended, or its end has not been written.
func (m *Machine) Leads(group int) bool { return m.groups[group].phase != idle }

// Stats returns what was counted.
func (m *Machine) Stats() Stats { return m.stats }

// Events returns what has happened since the last call.
func (m *Machine) Events() []Event {
	events := m.events
	m.events = nil
	return events
}

// View returns what is known now.
func (m *Machine) View() *View {
	v := &View{Leaders: m.known.Leaders, Nodes: m.known.Nodes, At: m.at, Offset: m.offset}
	if m.off() {
		v.Apart = time.Duration(m.apart)
	}
	return v
}

// Demote begins to hand a group over. The errors are ErrNotLeader and ErrAlone.
func (m *Machine) Demote(now int64, group int) error {
	if at := m.groups[group]; at.phase != leading || at.asked {
		return ErrNotLeader
	}
	if len(m.alive(now, group)) == 0 {
		return ErrAlone
	}
	m.groups[group].asked = true
	m.hinted = true // while the group ends, read who is there: an heir that has just stopped would delay all
	m.advance(now, atOnce)
	return nil
}

// Stop begins to hand all groups over, for good.
func (m *Machine) Stop(now int64) { m.stop(now, atOnce) }

// Halt is a Stop that ends all groups at once, because no request comes any more.
func (m *Machine) Halt(now int64) { m.stop(now, MaxGroups) }

func (m *Machine) stop(now int64, most int) {
	m.stopping, m.hinted = true, true // as in Demote
	for g := range m.groups {
		m.groups[g].asked = m.groups[g].phase == leading
	}
	m.advance(now, most)
}

// advance ends groups that are to be handed over, as long as fewer than most are under way. The others are
// led as before.
func (m *Machine) advance(now int64, most int) {
	under := 0
	for _, at := range m.groups {
		if at.phase == ending || at.phase == sealed {
			under++
		}
	}
	for g := range m.groups {
		if at := &m.groups[g]; under < most && at.asked && at.phase == leading {
			m.end(g, false)
			m.gather = now + int64(gather)
			under++
		}
	}
}

// end stops issuing.
func (m *Machine) end(g int, lost bool) {
	at := &m.groups[g]
	at.phase, at.asked, at.until = ending, false, 0
	m.events = append(m.events, Event{Term: at.term, Lost: lost})
}

// Ended says that the Term of an End can issue nothing any more, and gives nothing back any more.
func (m *Machine) Ended(group int) {
	at := &m.groups[group]
	switch {
	case at.phase != ending:
	case m.still(group, &m.known.Leaders[group]):
		at.phase = sealed
	default: // there is nothing to hand over
		m.leave(group)
		m.hinted = true // what is known of the group was passed over meanwhile
	}
}

// still reports whether a group's key is as the Term's beginning has left it.
func (m *Machine) still(g int, l *Leader) bool {
	return l.ID == m.me.ID && l.Revision == m.groups[g].term.Fence
}

// leave ends this daemon's part in a group.
func (m *Machine) leave(g int) {
	m.groups[g] = group{empty: m.groups[g].empty, out: m.groups[g].out}
}

// Next returns the Change to commit now, or nil, and when to ask again if nothing happens before. A
// Change is under way until Answer; until then there is no other.
func (m *Machine) Next(now int64) (c *Change, wake int64) {
	if m.call != nil {
		return nil, m.call.sent + int64(Patience)
	}
	if now < m.pause {
		return nil, m.pause
	}
	next, wake := m.choose(now)
	if next == nil {
		return nil, wake
	}
	next.sent = now
	if next.renews {
		m.renewAt = now + int64(every)
	}
	m.hinted = false // the answer says all
	m.call = next
	return &next.Change, now + int64(Patience)
}

// choose returns what to do now, or when to ask again.
func (m *Machine) choose(now int64) (next *call, wake int64) {
	switch mine := m.known.Node(m.me.ID).Revision; {
	case m.stopping && !m.busy() && mine != 0: // no leader shall take it for an heir
		return &call{Change: Change{Nodes: map[string]int64{m.me.ID: mine}, Drop: []string{m.me.ID}}}, 0
	case m.stopping && !m.busy():
		if poll := m.at + int64(every); now < poll && !m.hinted {
			return nil, poll
		}
		return &call{}, 0
	case now >= m.renewAt:
		return m.renewal(), 0
	}
	if c := m.release(now); c != nil {
		return c, 0
	}
	g, due := m.claimable()
	if g >= 0 && due <= now {
		return m.claim(g), 0
	}
	if m.hinted || now >= m.at+int64(look) {
		return &call{}, 0
	}
	if c := m.sweep(now); c != nil {
		return c, 0
	}
	wake = min(m.renewAt, m.at+int64(look))
	if now < m.gather {
		wake = min(wake, m.gather)
	}
	if g >= 0 {
		wake = min(wake, due)
	}
	return nil, wake
}

// busy reports whether there is a group that this daemon has a part in.
func (m *Machine) busy() bool {
	for g := range m.groups {
		if m.groups[g].phase != idle {
			return true
		}
	}
	return false
}

// gone reports whether this daemon has stopped, and the Board has nothing of it, as far as is known.
func (m *Machine) gone() bool {
	return m.stopping && m.call == nil && !m.busy() && m.known.Node(m.me.ID).Revision == 0
}

// renewal writes the node key, if all groups that are led are still this daemon's. It compares the node
// key too, so that of two calls whose answers were lost one at most is carried out late.
func (m *Machine) renewal() *call {
	c := &call{renews: true, Change: Change{
		Leaders: map[int]int64{}, Nodes: map[string]int64{m.me.ID: m.known.Node(m.me.ID).Revision}, Put: &m.me,
		Stamp: m.stamp(),
	}}
	for g := range m.groups {
		if m.groups[g].phase == leading {
			c.Leaders[g] = m.groups[g].term.Fence
		}
	}
	return c
}

// inherit is a renewal that takes all groups too of which this daemon is the heir.
func (m *Machine) inherit() *call {
	c := m.renewal()
	c.Lead = map[int]Leader{}
	for g, l := range m.known.Leaders {
		if m.inherits(g) {
			c.Leaders[g] = l.Revision
			c.Lead[g] = Leader{Node: m.me, Number: l.Number + 1}
		}
	}
	return c
}

// inherits reports whether a group was handed over to this daemon.
func (m *Machine) inherits(g int) bool {
	l := m.known.Leaders[g]
	return m.groups[g].phase == idle && l.ID == "" && l.Heir == m.me.ID && m.mayLead(g)
}

// claim is a renewal that takes a group too. It compares the node key of the leader that has not
// renewed, and deletes it if that one leads nothing else.
func (m *Machine) claim(g int) *call {
	if m.inherits(g) {
		return m.inherit()
	}
	old := m.known.Leaders[g]
	c := m.renewal()
	c.Leaders[g] = old.Revision
	c.Lead = map[int]Leader{g: {Node: m.me, Number: old.Number + 1}}
	if old.ID != "" {
		key := m.known.Node(old.ID)
		c.Nodes[old.ID] = key.Revision
		if view := m.View(); key.Revision != 0 && view.Held(old.ID) == 1 {
			c.Drop = []string{old.ID}
		}
	}
	return c
}

// claimable returns the group that may be claimed first, and when; -1 = none.
func (m *Machine) claimable() (g int, due int64) {
	g = -1
	if m.stopping {
		return g, 0
	}
	first := Group(id.Slot(m.me.ID)) // daemons that start together begin with different ones
	for i := range MaxGroups {
		i = (first + i) % MaxGroups
		if m.groups[i].phase != idle || Timed(i) && (!m.timed[i] || m.off()) {
			continue
		}
		if at := m.dueAt(i); g < 0 || at < due {
			g, due = i, at
		}
	}
	return g, due
}

// dueAt returns when a group may be claimed.
func (m *Machine) dueAt(g int) int64 {
	l := m.known.Leaders[g]
	wait := spread * time.Duration(m.led())
	free := m.groups[g].empty
	if Timed(g) && !m.warm {
		free = max(free, m.born+int64(cold))
	}
	switch {
	case l.ID != "":
		free = max(free, m.nodes[l.ID].at+int64(TTL))
	case l.Heir == m.me.ID: // the one that handed it over relies on that, also if this daemon had it a moment before
		return free
	case l.Heir != "":
		wait += spread
	}
	return max(free+int64(wait), m.groups[g].out)
}

func (m *Machine) led() (n int) {
	for g := range m.groups {
		if m.groups[g].phase == leading {
			n++
		}
	}
	return n
}

// release hands over all groups that are sealed. A daemon that stops deletes its node key with the last of
// them, so that none of the others takes it for an heir.
func (m *Machine) release(now int64) *call {
	in := func(p phase) bool {
		return slices.ContainsFunc(m.groups[:], func(g group) bool { return g.phase == p })
	}
	if in(ending) && now < m.gather {
		return nil
	}
	c := &call{Change: Change{Leaders: map[int]int64{}, Lead: map[int]Leader{}}}
	view := m.View()
	for g := range m.groups {
		at := &m.groups[g]
		if at.phase != sealed {
			continue
		}
		heir, fewest := "", 0
		for _, id := range m.alive(now, g) {
			if n := view.Held(id); heir == "" || n < fewest {
				heir, fewest = id, n
			}
		}
		view.Leaders[g].ID = heir // counts for the next group
		c.Leaders[g] = at.term.Fence
		c.Lead[g] = Leader{Number: at.term.Number, Heir: heir}
	}
	if len(c.Lead) == 0 {
		return nil
	}
	if mine := m.known.Node(m.me.ID).Revision; m.stopping && !in(ending) && !in(leading) && mine != 0 {
		c.Nodes, c.Drop = map[string]int64{m.me.ID: mine}, []string{m.me.ID}
	}
	return c
}

// alive returns the other daemons that have renewed within TTL, and know the groups of timestamps if it is about one of
// these. Of those that were only seen once it is not known; they come last, and only if there are no others.
func (m *Machine) alive(now int64, group int) []string {
	var sure, unsure []string
	for _, n := range m.known.Nodes {
		switch s := m.nodes[n.ID]; {
		case n.ID == m.me.ID || now-s.at >= int64(TTL) || Timed(group) && n.Stamp == 0:
		case s.changed:
			sure = append(sure, n.ID)
		default:
			unsure = append(unsure, n.ID)
		}
	}
	if len(sure) > 0 {
		return sure
	}
	return unsure
}

// sweep deletes the key of a daemon that is dead, or stands still. Mostly a claim has done so.
func (m *Machine) sweep(now int64) *call {
	for _, n := range m.known.Nodes {
		if now-m.nodes[n.ID].at >= int64(stale) && n.ID != m.me.ID {
			return &call{Change: Change{Nodes: map[string]int64{n.ID: n.Revision}, Drop: []string{n.ID}}}
		}
	}
	return nil
}

// Answer takes the result of the Change under way, which is that of Board.Commit.
func (m *Machine) Answer(now int64, done bool, s State, err error) {
	c := m.call
	m.call = nil
	if c == nil {
		panic("leader: an answer to nothing")
	}
	defer func() {
		for g, l := range m.saw {
			m.apply(now, g, l)
		}
		clear(m.saw)
		m.advance(now, atOnce)
	}()
	if err != nil {
		m.stats.Failures++
		m.pause, m.hinted = now+int64(retry), true
		if c.renews {
			m.renewAt = now
		}
		return
	}
	m.learn(now, s)
	if done && c.renews {
		m.renewals++
	}
	m.judgeTime(now)
	if !done {
		m.pause = now + int64(again)
		if c.renews {
			m.renewAt = now
		}
		return
	}
	if !c.renews {
		return
	}
	m.stats.Renewals++
	m.stats.Renewed, m.renewAt = c.sent, c.sent+int64(every)
	for g := range m.groups {
		at := &m.groups[g]
		_, compared := c.Leaders[g]
		switch {
		case at.phase != leading: // learn has ended it, if the key was written since
		case compared:
			at.until = c.sent + int64(valid)
		case at.until == 0: // it has just begun
			m.renewAt = now
		}
	}
}
