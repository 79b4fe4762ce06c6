package windows

import (
	"errors"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// An outage is a time in which no ids are issued. The log says when one begins and ends.
type outage struct {
	mu     sync.Mutex
	quiet  bool      // see Quiet
	looked time.Time // the first time; zero = never
	since  time.Time // when the one under way was seen; zero = there is none
}

// The log's lines about an outage. The first is for a program that has issued nothing yet.
const (
	portClosed = "the port stays closed until ids can be issued"
	noIDs      = "no ids are issued"
	idsAgain   = "ids are issued again"
)

// eachSecond is what an idle program looks after.
func (h *Holder) eachSecond() {
	if a := h.peers.announcer; a != nil {
		a.Look()
	}
	h.lookForOutage(time.Now())
}

// Quiet tells whether no outage is to be logged: the program stops, or another process takes over.
func (h *Holder) Quiet(quiet bool) {
	h.outage.mu.Lock()
	defer h.outage.mu.Unlock()
	h.outage.quiet = quiet
}

// lookForOutage logs the beginning or the end of an outage. That the ids of a moment are used up is none: the
// lanes issue as many as they can.
func (h *Holder) lookForOutage(now time.Time) {
	o := &h.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.quiet {
		return
	}
	if o.looked.IsZero() {
		o.looked = now
	}
	err, refusal := h.Issuer.Ready(h.Clock.Now()), (*issuer.Refusal)(nil)
	switch {
	case errors.As(err, &refusal) && refusal.Reason == issuer.RateExceeded:
	case err == nil && !o.since.IsZero():
		h.c.Log.Warn(idsAgain, "after", now.Sub(o.since).Round(time.Second)) // a line that shows where errors do
		o.since = time.Time{}
	case err == nil, !o.since.IsZero():
	case h.peers.open.Load():
		o.since = now
		h.c.Log.Error(noIDs, "reason", err)
	case now.Sub(o.looked) >= time.Second+h.c.Store.Watch: // the very first start takes one second
		o.since = now
		h.c.Log.Error(portClosed, "reason", err)
	}
}

// Warnings for a program that records its windows nowhere. Its next run starts at the wall clock
// plus the run-ahead. So it repeats ids only if the last id was further ahead of the wall clock,
// which happens when the id clock did not follow the wall clock back.

const noRecord = "no state directory: "

// warnOfRestarts is called when the id clock stays ahead of the wall clock. Ids may be ahead of the
// id clock by the run-ahead.
func (h *Holder) warnOfRestarts(ahead time.Duration) {
	h.c.Log.Warn(noRecord+"once this daemon stops, do not start it again before the wall clock has passed its last id",
		"wait", ahead+h.c.MaxRunAhead)
}

// warnOfRestart says at the end how long a restart must wait, if at all.
func (h *Holder) warnOfRestart() {
	if h.Clock.StaysAhead == nil { // windows are recorded
		return
	}
	last := time.UnixMilli(h.Issuer.Position())
	if wait := time.Until(last).Round(time.Millisecond); wait > h.c.MaxRunAhead {
		h.c.Log.Warn(noRecord+"do not start this daemon again before the wall clock has passed its last id", "wait", wait,
			"until", last.UTC())
	}
}
