package workerid

import (
	"fmt"
	"time"
)

// A State is the state of a lane; see the package comment.
type State int

// The states. String gives their names in statistics and logs.
const (
	Acquiring State = iota
	Waiting
	Serving
	Degraded
	Draining
	Exhausted
	Sealed
)

func (s State) String() string {
	return [...]string{"acquiring", "waiting", "serving", "degraded", "draining", "exhausted", "sealed"}[s]
}

// Issues reports whether a lane in this state issues ids.
func (s State) Issues() bool { return s == Serving || s == Degraded || s == Draining }

// A LaneStatus describes a lane.
type LaneStatus struct {
	State  State
	Reason string        // the last error, or what the lane waits for; empty if all is well
	For    time.Duration // how long it has been in this state
	Held   bool          // the lane has a lease
	Worker uint64        // its worker id; while Draining, that of the lost lease. 0 if there is neither
	Lo, Hi int64         // the window, Unix ms; Hi may be Forever
	Left   time.Duration // from now to the window's end, a century at most, negative after it
}

// Status describes every lane.
func (m *Machine) Status(now Moment) []LaneStatus {
	all := make([]LaneStatus, len(m.lanes))
	for i := range m.lanes {
		l := &m.lanes[i]
		s := LaneStatus{State: l.state, Reason: l.problem.text, For: now.Mono - l.since, Held: l.held}
		grant, some := l.grant, l.held
		if l.draining(now) {
			grant, some = l.lost, true
		}
		if some {
			s.Worker, s.Lo, s.Hi, s.Left = grant.Worker, grant.Lo, grant.Hi, left(grant.Hi, now)
		}
		if l.state == Waiting && s.Reason == "" {
			s.Reason, _ = m.waits(l, now)
		}
		all[i] = s
	}
	return all
}

// left returns the time from now to a Unix ms, at most a century in either direction.
func left(until int64, now Moment) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	if until >= now.ID+most.Milliseconds() {
		return most
	}
	return time.Duration(max(until-now.ID, -most.Milliseconds())) * time.Millisecond
}

// waits returns what a lane with a grant and no problem waits for, and for how long if that is the
// clock. Ids start before the window does, by the run-ahead; but an empty window is not extended before
// the clock reaches it.
func (m *Machine) waits(l *lane, now Moment) (reason string, d time.Duration) {
	from, empty := l.grant.Lo-m.runAhead(), l.grant.Lo > l.grant.Hi
	if empty {
		from = l.grant.Lo
	}
	d = max(0, left(from, now))
	if d == 0 && empty {
		return "the window is empty until it is extended", 0
	}
	reason = fmt.Sprintf("the clock has yet to reach the window: ids in %v", d)
	if d >= farAhead {
		reason += farAdvice
	}
	return reason, d
}

// farAhead is a wait that no restart explains: the clock was ahead when the mark was recorded, or is behind now.
const farAhead = time.Hour

// farAdvice is what can be done about a worker id whose mark is far ahead of a clock that is right.
const farAdvice = "; if this clock is right, an earlier one was ahead: take another worker id, or, " +
	"of one given by hand, `katsubushi state reset -force`, which repeats ids once time reaches the old mark " +
	"(of a store `katsubushi lease list` shows the marks)"
