package workerid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pauses.
const (
	backoffFirst = 100 * time.Millisecond // before Acquire is tried again; doubled each time
	backoffLast  = 5 * time.Second        // and no longer than this
	lookAgain    = time.Second            // a lane that waits for the clock looks at it this often, as it may be set
)

// MachineConfig is what a Machine goes by.
type MachineConfig struct {
	Requests  []Request            // one for each lane: what it asks the store for
	RunAhead  time.Duration        // how far ahead of the clock ids are issued
	Heartbeat time.Duration        // mean time between two extensions; must be well below the lease length
	CheckTime func(ms int64) error // why no id can carry this Unix ms, or nil; ids are not asked for at such times. Must be pure
	Seed      uint64               // of the jitter; give each process another one
}

// A Machine decides how the leases of a daemon's lanes are acquired, extended, replaced and given back. It is pure: Step is told what
// happened and when, and answers what is to be done. It is not safe for concurrent use.
//
// The state of a lane is not stored but follows from what it holds and from the clock, so that no order of events can leave it in one
// that does not fit. Beside the table of states, these rules hold:
//
//   - at most one Extend and one Acquire are unanswered at a time; all lanes are extended together;
//   - a window reaches the generator (Publish, Lengthen) only after the store's answer, and Seal always precedes Release;
//   - a lane that lost its lease keeps its generator until the next one may issue or the old window is over, whichever is first;
//   - no window reaches a generator that begins below the end of what this daemon has had of the worker id, in whichever lane, though a
//     store should grant it;
//   - errors change when something is tried again, never what may be issued.
type Machine struct {
	c          MachineConfig
	lanes      []lane
	jitter     uint64        // state of the random numbers
	nextBeat   time.Duration // Mono of the next Extend
	extending  []int         // the lanes of the unanswered Extend; nil if there is none
	extendedAt time.Duration // when that was sent
	failures   int           // of Extend, in a row
	acquiring  bool          // an Acquire is unanswered
	stopping   bool
	finished   bool
	had        map[uint64]int64 // by worker id: up to where it was in a generator's window
	effects    []Effect
}

type lane struct {
	state    State
	problem  failure       // why it is not as well as could be: the last error, zero when there is none
	reported reasons       // what Changed gave as a reason since it is in this state, or since all was well in it
	since    time.Duration // Mono since when it is in this state

	grant     Grant
	held      bool // the store has grant down as ours, as far as we know
	confirmed bool // and said that it may be used
	failing   bool // the last extension failed
	installed bool // the lane has a generator, not sealed
	published bool // and that is of grant; else of a lease that was lost
	lost      Grant

	retryAt   time.Duration // Mono of the next Acquire
	tries     int           // of Acquire in a row
	sealing   bool          // Seal is unanswered
	last      int64         // its answer
	releasing bool          // Release was sent
}

// NewMachine makes a Machine whose lanes have nothing. Its first Deadline is at once.
func NewMachine(c MachineConfig) *Machine {
	return &Machine{c: c, lanes: make([]lane, len(c.Requests)), jitter: c.Seed, had: map[uint64]int64{}}
}

// Step tells what happened at now and returns what is to be done, in this order. The slice is valid until the next Step.
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

// Deadline is the Mono at which Step wants a Tick, if nothing happens before; negative if never.
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
			if l.grant.Lo <= l.grant.Hi { // else it waits for an extension
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

func (l *lane) extendable() bool { return l.held && l.grant.Hi != Forever && !l.releasing }

// askForMore begins the calls whose time has come.
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
			m.refused(now, next, failure{"time", err.Error()})
			return
		}
	}
	m.acquiring = true
	m.do(Acquire{next, m.c.Requests[next]})
}

// beat extends everything that is held, or notes that the last beat is still unanswered.
func (m *Machine) beat(now Moment) {
	if m.extending != nil {
		for _, i := range m.extending {
			m.lanes[i].fail(failure{noAnswer, fmt.Sprintf("no answer from the store for %v", (now.Mono - m.extendedAt).Round(100*time.Millisecond))})
		}
		m.nextBeat = now.Mono + m.spread(m.c.Heartbeat, 0.1)
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
	m.extendedAt, m.nextBeat = now.Mono, now.Mono+m.spread(m.c.Heartbeat, 0.1)
	m.do(Extend{held})
}

func (l *lane) fail(p failure) { l.failing, l.problem = true, p }

// A failure is what keeps a lane from being better. Its text may tell a time, a port or an attempt; its kind stays the same, and is what
// decides whether there is something new to report.
type failure struct{ kind, text string }

const noAnswer = "no answer"

func problemOf(err error) failure {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, kind := range []error{ErrLost, ErrShared, ErrNoneYet, ErrNoID, ErrSkew, ErrForeignPool, ErrUnconfirmed} {
		if errors.Is(err, kind) {
			return failure{kind.Error(), text}
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failure{noAnswer, text}
	}
	return failure{strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text), text}
}

// reasons are kinds of problems, the last ones first.
type reasons [8]string

// add reports whether it was not among them.
func (r *reasons) add(kind string) bool {
	if slices.Contains(r[:], kind) {
		return false
	}
	copy(r[1:], r[:])
	r[0] = kind
	return true
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
	if m.nextBeat <= now.Mono { // nothing was held
		m.nextBeat = now.Mono + m.spread(m.c.Heartbeat, 0.1)
	}
	if unconfirmed {
		l.grant.Hi = l.grant.Lo - 1 // what Extend is to confirm, from the start
		l.fail(problemOf(e.Err))
		m.nextBeat = min(m.nextBeat, now.Mono+m.spread(backoffFirst, 0.5))
	}
}

// waitAtMost brings the next Acquire forward to when the store said that it may succeed, and a little more: by then others ask as well.
func (l *lane) waitAtMost(now Moment, err error, more time.Duration) {
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) && hint.RetryAfter() > 0 {
		l.retryAt = min(l.retryAt, now.Mono+hint.RetryAfter()+more)
	}
}

// refused notes that a lane got no worker id, and when to ask again.
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
	failed := false
	for k, i := range lanes {
		r := Result{Err: e.Err}
		if e.Err == nil {
			r = e.Results[k]
		}
		m.extendedLane(i, r)
		l := &m.lanes[i]
		stale := l.held && l.grant.Hi < now.ID // as after a pause of this process while the call was under way
		failed = failed || l.failing || stale
	}
	if !failed {
		m.failures = 0
		return
	}
	again := now.Mono + m.spread(min(backoffFirst<<min(m.failures, 10), m.c.Heartbeat), 0.5)
	m.nextBeat = min(max(m.nextBeat, now.Mono), again)
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
		l.fail(problemOf(fmt.Errorf("the store answered with worker id %d from %d, where %d ends at %d", r.Grant.Worker, r.Grant.Lo, l.grant.Worker, l.grant.Hi)))
	case r.Grant.Lo > l.grant.Hi+1: // not contiguous: another generator
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

// lose gives the lease up. Its window stays the generator's until it is over.
func (l *lane) lose(err error) {
	if l.published {
		l.lost = l.grant
	}
	l.held, l.confirmed, l.published, l.failing = false, false, false, false
	l.problem = problemOf(err)
}

func (m *Machine) stop() {
	if m.stopping {
		return
	}
	m.stopping = true
	for i := range m.lanes {
		m.lanes[i].problem = failure{} // whatever it was, it is over
		m.seal(i)
	}
}

func (m *Machine) seal(i int) {
	if l := &m.lanes[i]; l.installed {
		m.do(Seal{i})
		l.installed, l.sealing = false, true
	}
}

// giveBack releases what is sealed, once no answer is due that could change what there is to release.
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

// settle publishes what has become usable and reports the state that follows.
func (m *Machine) settle(now Moment, i int) {
	l := &m.lanes[i]
	if !m.stopping && l.held && l.confirmed && !l.published {
		switch had, again := m.had[l.grant.Worker]; {
		case again && l.grant.Lo <= had:
			l.lose(fmt.Errorf("the store granted worker id %d from %d, which this daemon has had until %d", l.grant.Worker, l.grant.Lo, had))
			l.retryAt = now.Mono + m.spread(backoffLast, 0.5)
		case !l.draining(now) || l.reached(now, m.runAhead()):
			l.installed, l.published = true, true
			m.had[l.grant.Worker] = l.grant.Hi
			m.do(Publish{i, l.grant})
		}
	}
	m.report(now, i)
}

// report tells of a lane that has come into another state, or has a reason for being in this one that was not told yet: two that take
// turns are told once each.
func (m *Machine) report(now Moment, i int) {
	l, state := &m.lanes[i], m.stateOf(&m.lanes[i], now)
	switch {
	case state != l.state || l.problem.kind == "" && l.reported != reasons{}:
		l.reported = reasons{}
		l.reported.add(l.problem.kind)
	case m.stopping && !l.releasing: // what else it had begun does not matter any more
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
	}
	m.do(c)
	if state != l.state {
		l.state, l.since = state, now.Mono
	}
	if state == Acquiring && !l.held {
		l.grant = Grant{}
	}
}

// draining says whether the lane's generator may still issue from a lease that was lost.
func (l *lane) draining(now Moment) bool { return l.installed && !l.published && now.ID <= l.lost.Hi }

// reached says whether an id of the grant's window could be issued by now.
func (l *lane) reached(now Moment, runAhead int64) bool {
	return l.grant.Lo <= l.grant.Hi && now.ID+runAhead >= l.grant.Lo
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

// spread varies a pause by part of it, in either direction, so that daemons do not act in step.
func (m *Machine) spread(d time.Duration, part float64) time.Duration {
	m.jitter += 0x9e3779b97f4a7c15 // SplitMix64
	x := m.jitter
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return d + time.Duration(part*float64(d)*(2*float64(x>>11)/(1<<53)-1))
}
