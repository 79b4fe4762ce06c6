package workerid

import "time"

// A lane is what a Machine knows of one of its worker ids.
type lane struct {
	state   State
	problem failure // the last error, zero if there is none
	// the reasons that Changed gave since the lane entered this state, or last had no problem in it
	reported reasons
	since    time.Duration // Mono at which the lane entered this state

	grant     Grant
	held      bool // the store has recorded grant as ours, as far as we know
	confirmed bool // and has said that it may be used
	failing   bool // the last extension failed
	installed bool // the lane has a generator that is not sealed
	published bool // and it issues from grant; otherwise from a lost lease
	lost      Grant

	retryAt   time.Duration // Mono of the next Acquire
	tries     int           // of Acquire in a row
	sealing   bool          // Seal is unanswered
	last      int64         // its answer
	releasing bool          // Release was sent
}

func (l *lane) extendable() bool { return l.held && l.grant.Hi != Forever && !l.releasing }

// lose forgets the lease. The generator keeps its window until the window's end.
func (l *lane) lose(err error) {
	if l.published {
		l.lost = l.grant
	}
	l.held, l.confirmed, l.published, l.failing = false, false, false, false
	l.problem = problemOf(err)
}

// draining reports whether the lane's generator may still issue from a lost lease.
func (l *lane) draining(now Moment) bool { return l.installed && !l.published && now.ID <= l.lost.Hi }

// reached reports whether the clock, run-ahead included, has reached the grant's window.
func (l *lane) reached(now Moment, runAhead int64) bool {
	return l.grant.Lo <= l.grant.Hi && now.ID+runAhead >= l.grant.Lo
}
