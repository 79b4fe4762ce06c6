package workerid

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 100 * time.Millisecond // before Acquire is tried again; doubled each time
	backoffLast  = 5 * time.Second        // and no longer than this
	hintSlack    = 20 * time.Millisecond  // on average, after a wait that the store named
	lookAgain    = time.Second            // a lane that waits for the clock looks at it this often, as it may be set
)

// MachineConfig holds the settings of a Machine.
type MachineConfig struct {
	Requests  []Request     // one for each lane: what it asks the store for
	RunAhead  time.Duration // how far ahead of the clock ids are issued
	Heartbeat time.Duration // mean time between two extensions; must be well below the lease length
	// extensions come at whole multiples of Heartbeat by Moment.Mono, not at random; at every second one while nothing
	// is issued
	Even bool
	// returns why ids cannot carry this Unix ms, or nil; no Acquire is sent at such times. Must be
	// pure
	CheckTime func(ms int64) error
	Seed      uint64 // of the jitter; must differ between processes
}

// A Machine decides when the leases of a daemon's lanes are acquired, extended, replaced and given
// back. It is pure: it reads no clock, does no I/O and starts no goroutine. Step takes what happened
// and when, and returns what the Keeper must do. It is not safe for concurrent use.
//
// # The problem
//
// Two ids are equal if worker id, tick and sequence are equal. A generator never repeats its own
// ids. The danger is the other processes that use the same worker id: the one before a crash, the
// one after a lost lease, the one that was stopped for an hour. We cannot ask whether they still
// run. Calls to the store get lost, or succeed without an answer, or are answered after the lease
// has ended. Any clock may be set at any time, and this process may be paused between any two
// instructions.
//
// So the Machine never asks "is my lease still valid?". The windows that the store grants for a worker
// id never overlap, and a generator issues only ids whose tick lies wholly within its window. An id
// that leaves late is then still unique. The clock decides how useful a window is, and when to ask for
// more.
//
// # Invariants
//
// docs/LEASES.md numbers the rules. The store keeps 1 to 5, the generator keeps 6 and 7, and the
// Machine keeps 8 to 10:
//
//   - Rule 8: a window reaches a generator (Publish, Lengthen) only after the store has answered. A
//     window that continues the old one lengthens it. A window after a gap gets a new generator,
//     because the gap may belong to another holder.
//   - Rule 9: Seal comes before Release. The Release waits for the answer to Seal, which says what was
//     issued last, and for an unanswered Extend, which may still move the window's end.
//   - Rule 10: neither Publish nor Lengthen gets a window that starts at or below the end of what this
//     daemon has already had of that worker id, in any lane, even if the store grants it.
//   - At most one Acquire and one Extend are unanswered at a time. One Extend covers all lanes.
//   - A lane that lost its lease keeps its generator until the old window is over, or until its next
//     window can issue, whichever comes first. That window was granted to this lane alone.
//   - An error never adds to what may be issued. It changes when the Machine tries again; ErrShared
//     also seals the generator.
//   - A lane's state is not stored. stateOf derives it from what the lane holds and from the clock, so
//     no order of events can leave a lane in a state that does not fit. The state in lane.state is the
//     one last reported.
//
// # What broke
//
//   - All lanes once had one owner name. A lane whose window was over, and another one that was then
//     granted the same worker id, looked like one holder to the store. The next Extend gave both the
//     same window: thousands of duplicates after an outage longer than the lease. Now each lane has an
//     owner of its own, and rule 10 refuses the second of the two windows.
//   - An Acquire was carried out, and its answer got lost. A later one was answered, and a fail-over
//     brought the first back. The store granted this daemon the window that it had already issued
//     from. Requests now forgets the first, and rule 10 is the net below: it needs only memory.
//   - An operator released a worker id whose holder was alive, and the store gave it away at once. The
//     holder did not hear of it. When Redis then lost the pool, the holder's window counted as proof
//     that no other daemon had the worker id, and it was granted what the new holder had. The store now
//     keeps such a worker id back until the old window is over.
//   - A copy of the process (a virtual machine restored from a snapshot) has the same window, so
//     using it up, as after ErrLost, repeats ids. The store finds a request id that this process
//     never sent and returns ErrShared, and the Machine seals the generator at once.
//   - This process was paused while an Extend was under way. The answer was a success, but the clock
//     had passed the new window. The next beat is now soon after such an answer.
//
// Each mutant in test/sim lacks one rule, and the simulation must find every mutant.
//
// # The order within a Step
//
// Step gets a Moment and one Event. Mono drives the pauses and the heartbeat; ID, which may jump, is
// only compared with windows. Step first applies the event (Lengthen, Seal), then begins calls whose
// time has come (Extend, Acquire, or Release and Finished while stopping), and then settles each lane
// in turn (Publish, then Changed). Changed comes last so that it reports the state that results.
//
// The Keeper carries out effects in this order. Publish, Lengthen and Seal are done when the next
// effect begins, and SealedAt follows the Step that sealed before any other event. Acquire, Extend and
// Release are only begun; each is answered by one event, in any order and at any time.
type Machine struct {
	c          MachineConfig
	lanes      []lane
	jitter     *rand.Rand    // seeded
	nextBeat   time.Duration // Mono of the next Extend
	extending  []int         // the lanes of the unanswered Extend; nil if there is none
	extendedAt time.Duration // when that was sent
	position   int64         // Moment.Position then
	failures   int           // of Extend, in a row
	acquiring  bool          // an Acquire is unanswered
	stopping   bool
	finished   bool
	had        map[uint64]int64 // by worker id: the end of the last window that a generator of ours got; for rule 10
	effects    []Effect
}

// NewMachine makes a Machine whose lanes hold nothing. Its first Deadline is immediate.
func NewMachine(c MachineConfig) *Machine {
	return &Machine{c: c, lanes: make([]lane, len(c.Requests)), jitter: rand.New(rand.NewPCG(c.Seed, 0)),
		had: map[uint64]int64{}}
}

// Step takes what happened at now and returns what to do, in order. The slice is valid until the
// next Step.
func (m *Machine) Step(now Moment, e Event) []Effect {
	clear(m.effects)
	m.effects = m.effects[:0]
	switch e := e.(type) {
	case Acquired:
		m.acquired(now, e)
	case Extended:
		m.extended(now, e)
	case SealedAt:
		l := &m.lanes[e.Lane]
		l.sealing, l.last = false, e.Last
	case Released:
		l := &m.lanes[e.Lane]
		l.held = false
		if e.Err != nil {
			l.problem = problemOf(fmt.Errorf("not released: %w", e.Err))
		}
	case Stop:
		m.stop()
	}
	if m.stopping {
		m.giveBack()
	} else {
		m.askForMore(now)
	}
	for i := range m.lanes {
		m.settle(now, i)
	}
	return m.effects
}

func (m *Machine) do(e Effect) { m.effects = append(m.effects, e) }

// Deadline returns the Mono at which Step needs a Tick if nothing happens before, or a negative
// value for never.
func (m *Machine) Deadline(now Moment) time.Duration {
	if m.stopping {
		return -1
	}
	at := time.Duration(-1)
	sooner := func(t time.Duration) {
		if t = max(t, now.Mono); at < 0 || t < at {
			at = t
		}
	}
	for i := range m.lanes {
		l := &m.lanes[i]
		if !l.held && !m.acquiring {
			sooner(l.retryAt)
		}
		if l.extendable() {
			sooner(m.nextBeat)
		}
		switch l.state {
		case Waiting:
			if l.grant.Lo <= l.grant.Hi { // otherwise it waits for an extension
				sooner(now.Mono + min(left(l.grant.Lo-m.runAhead(), now), lookAgain))
			}
		case Serving, Degraded:
			if l.grant.Hi != Forever {
				sooner(now.Mono + left(l.grant.Hi, now) + time.Millisecond)
			}
		case Draining:
			sooner(now.Mono + min(left(l.lost.Hi, now)+time.Millisecond, lookAgain))
		}
	}
	return at
}

func (m *Machine) runAhead() int64 { return m.c.RunAhead.Milliseconds() }

// askForMore begins the calls that are due.
func (m *Machine) askForMore(now Moment) {
	if now.Mono >= m.nextBeat {
		m.beat(now)
	}
	if m.acquiring {
		return
	}
	next := -1
	for i := range m.lanes {
		l := &m.lanes[i]
		if !l.held && now.Mono >= l.retryAt && (next < 0 || l.retryAt < m.lanes[next].retryAt) {
			next = i
		}
	}
	if next < 0 {
		return
	}
	if m.c.CheckTime != nil {
		if err := m.c.CheckTime(now.ID); err != nil {
			m.refused(now, next, failure{kind: "time", text: err.Error()})
			return
		}
	}
	m.acquiring = true
	m.do(Acquire{next, m.c.Requests[next]})
}

// beat extends all held grants, or records that the last Extend is still unanswered. One that was sent
// again after an error, just before an even beat, has had no time to be answered: the error stays.
func (m *Machine) beat(now Moment) {
	if m.extending != nil {
		waited := now.Mono - m.extendedAt
		for _, i := range m.extending {
			if waited >= m.c.Heartbeat/2 {
				m.lanes[i].fail(failure{kind: noAnswer,
					text: fmt.Sprintf("no answer from the store for %v", waited.Round(100*time.Millisecond))})
			}
		}
		m.nextBeat = m.beatAfter(now)
		return
	}
	var held []Grant
	for i := range m.lanes {
		if l := &m.lanes[i]; l.extendable() {
			held, m.extending = append(held, l.grant), append(m.extending, i)
		}
	}
	if held == nil {
		return
	}
	m.extendedAt, m.nextBeat, m.position = now.Mono, m.beatAfter(now), now.Position
	m.do(Extend{held})
}

func (m *Machine) acquired(now Moment, e Acquired) {
	m.acquiring = false
	l, unconfirmed := &m.lanes[e.Lane], errors.Is(e.Err, ErrUnconfirmed)
	if e.Err != nil && !unconfirmed {
		m.refused(now, e.Lane, problemOf(e.Err))
		l.waitAtMost(now, e.Err, m.spread(backoffFirst, 0.5))
		return
	}
	l.grant, l.held, l.confirmed, l.published = e.Grant, true, !unconfirmed, false
	l.failing, l.problem, l.tries = false, failure{}, 0
	l.grant.Hi = max(l.grant.Hi, l.grant.Lo-1)
	if m.nextBeat <= now.Mono { // nothing was held before
		m.nextBeat = m.beatAfter(now)
	}
	if unconfirmed {
		l.grant.Hi = l.grant.Lo - 1 // an empty window: Extend must confirm all of it
		l.fail(problemOf(e.Err))
		m.nextBeat = min(m.nextBeat, now.Mono+m.spread(backoffFirst, 0.5))
	}
}

// refused records why a lane got no worker id and when to ask again.
func (m *Machine) refused(now Moment, i int, why failure) {
	l := &m.lanes[i]
	l.problem = why
	l.retryAt = now.Mono + m.spread(min(backoffFirst<<min(l.tries, 10), backoffLast), 0.5)
	l.tries++
}

func (m *Machine) extended(now Moment, e Extended) {
	lanes := m.extending
	m.extending = nil
	if e.Err == nil && len(e.Results) != len(lanes) {
		e.Err = fmt.Errorf("workerid: %d grants were to be extended, and %d results came", len(lanes), len(e.Results))
	}
	failed, hint := false, m.c.Heartbeat
	for k, i := range lanes {
		r := Result{Err: e.Err}
		if e.Err == nil {
			r = e.Results[k]
		}
		m.extendedLane(i, r)
		l := &m.lanes[i]
		stale := l.held && l.grant.Hi < now.ID // this process was paused during the call, for example
		failed = failed || l.failing || stale
		hint = min(hint, retryAfter(r.Err, hint))
	}
	if !failed {
		m.failures = 0
		return
	}
	again := now.Mono + m.spread(min(backoffFirst<<min(m.failures, 10), m.c.Heartbeat), 0.5)
	m.nextBeat = min(max(m.nextBeat, now.Mono), again, now.Mono+hint+m.spread(hintSlack, 0.5))
	m.failures++
}

func (m *Machine) extendedLane(i int, r Result) {
	l := &m.lanes[i]
	switch {
	case errors.Is(r.Err, ErrShared):
		l.lose(r.Err)
		m.seal(i)
	case errors.Is(r.Err, ErrLost):
		l.lose(r.Err)
	case r.Err != nil:
		l.fail(problemOf(r.Err))
	case r.Grant.Worker != l.grant.Worker || r.Grant.Lo <= l.grant.Hi && r.Grant.Lo <= r.Grant.Hi:
		l.fail(problemOf(fmt.Errorf("the store answered with worker id %d from %d, where %d ends at %d", r.Grant.Worker,
			r.Grant.Lo, l.grant.Worker, l.grant.Hi)))
	case l.published && m.had[l.grant.Worker] > l.grant.Hi: // by another lane
		l.lose(fmt.Errorf("the store extended worker id %d from %d, which this daemon has had until %d",
			l.grant.Worker, r.Grant.Lo, m.had[l.grant.Worker]))
	case r.Grant.Lo > l.grant.Hi+1: // a gap: needs a new generator
		l.grant, l.published, l.confirmed = r.Grant, false, true
		l.grant.Hi = max(l.grant.Hi, l.grant.Lo-1)
		l.failing, l.problem = false, failure{}
	default:
		lo, hi := l.grant.Hi+1, max(l.grant.Hi, r.Grant.Hi)
		if l.published && hi >= lo && !m.stopping {
			m.had[l.grant.Worker] = hi
			m.do(Lengthen{i, lo, hi})
		}
		l.grant.Hi, l.confirmed = hi, true
		l.failing, l.problem = false, failure{}
	}
}

func (m *Machine) stop() {
	if m.stopping {
		return
	}
	m.stopping = true
	for i := range m.lanes {
		m.lanes[i].problem = failure{} // no longer matters
		m.seal(i)
	}
}

func (m *Machine) seal(i int) {
	if l := &m.lanes[i]; l.installed {
		m.do(Seal{i})
		l.installed, l.sealing = false, true
	}
}

// giveBack releases what is sealed. It waits for an unanswered Extend, which could change what to
// release.
func (m *Machine) giveBack() {
	done := !m.acquiring && m.extending == nil
	for i := range m.lanes {
		l := &m.lanes[i]
		if l.held && !l.sealing && !l.releasing && m.extending == nil {
			last := l.grant.Lo - 1
			if l.published {
				last = l.last
			}
			l.releasing, l.problem = true, failure{}
			m.do(Release{i, l.grant, last})
		}
		done = done && !l.held && !l.sealing
	}
	if done && !m.finished {
		m.finished = true
		m.do(Finished{})
	}
}

// settle publishes a grant that has become usable and reports the resulting state.
func (m *Machine) settle(now Moment, i int) {
	l := &m.lanes[i]
	if !m.stopping && l.held && l.confirmed && !l.published {
		switch had, again := m.had[l.grant.Worker]; {
		case again && l.grant.Lo <= had:
			l.lose(fmt.Errorf("the store granted worker id %d from %d, which this daemon has had until %d", l.grant.Worker,
				l.grant.Lo, had))
			l.retryAt = now.Mono + m.spread(backoffLast, 0.5)
		case !l.draining(now) || l.reached(now, m.runAhead()):
			l.installed, l.published = true, true
			if l.grant.Lo <= l.grant.Hi { // an empty window holds nothing that could be repeated
				m.had[l.grant.Worker] = l.grant.Hi
			}
			m.do(Publish{i, l.grant})
		}
	}
	m.report(now, i)
}

// report emits Changed if a lane entered another state, or has a reason for its state that was not
// reported yet. Two reasons that alternate are reported once each.
func (m *Machine) report(now Moment, i int) {
	l, state := &m.lanes[i], m.stateOf(&m.lanes[i], now)
	switch {
	case state != l.state || l.problem.kind == "" && l.reported != reasons{}:
		l.reported = reasons{}
		l.reported.add(l.problem.kind)
	case m.stopping && !l.releasing: // failures of earlier calls no longer matter
		return
	case !l.reported.add(l.problem.kind):
		return
	}
	c := Changed{Lane: i, Grant: l.grant, From: l.state, To: state, Reason: l.problem.text}
	switch {
	case state == Waiting && c.Reason == "":
		c.Reason, c.Wait = m.waits(l, now)
	case state == Draining:
		c.Grant = l.lost
	case state == Acquiring:
		c.Wait = l.problem.wait
	}
	m.do(c)
	if state != l.state {
		l.state, l.since = state, now.Mono
	}
	if state == Acquiring && !l.held {
		l.grant = Grant{}
	}
}

func (m *Machine) stateOf(l *lane, now Moment) State {
	switch {
	case m.stopping:
		return Sealed
	case l.draining(now):
		return Draining
	case !l.published:
		return Acquiring
	case !l.reached(now, m.runAhead()):
		return Waiting
	case now.ID > l.grant.Hi:
		return Exhausted
	case l.failing:
		return Degraded
	}
	return Serving
}

// beatAfter returns the Mono of the beat after one at now.
func (m *Machine) beatAfter(now Moment) time.Duration {
	if !m.c.Even {
		return now.Mono + m.spread(m.c.Heartbeat, 0.1)
	}
	every := m.c.Heartbeat
	// Windows reach two heartbeats and the run-ahead past a beat. Whoever begins to issue now cannot use that up before
	// two heartbeats are over, and who issues at the clock's pace not for a heartbeat more.
	if now.Position == m.position && now.Position < now.ID && m.c.RunAhead >= m.c.Heartbeat {
		every *= 2
	}
	return now.Mono.Truncate(every) + every
}

// spread randomly lengthens or shortens d by up to part of it, so that daemons do not call in step.
func (m *Machine) spread(d time.Duration, part float64) time.Duration {
	return d + time.Duration(part*float64(d)*(2*m.jitter.Float64()-1))
}
