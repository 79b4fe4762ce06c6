package daemon

import (
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// An outage is a time in which the daemon issues no ids. The log says when one begins and ends. Only the
// clock's goroutine uses it.
type outage struct {
	looked time.Time // the first time; zero = never
	since  time.Time // when the one under way was seen; zero = there is none
}

// The log's lines about an outage. The first is for a daemon that has issued nothing yet.
const (
	portClosed = "the port stays closed until ids can be issued"
	noIDs      = "no ids are issued"
	idsAgain   = "ids are issued again"
)

// eachSecond is what an idle daemon looks after.
func (d *Daemon) eachSecond() {
	if a := d.peers.announcer; a != nil {
		a.Look()
	}
	if !d.freezing.TryLock() { // it stops, or another process takes over: that is no outage
		return
	}
	defer d.freezing.Unlock()
	if !d.stopping.Load() && !d.retired.Load() {
		d.lookForOutage(time.Now())
	}
}

// lookForOutage logs the beginning or the end of an outage. That the ids of a moment are used up is none:
// the daemon issues as many as it can.
func (d *Daemon) lookForOutage(now time.Time) {
	o, err := &d.outage, d.catalog.Ready()
	if o.looked.IsZero() {
		o.looked = now
	}
	refusal := (*issuer.Refusal)(nil)
	switch {
	case errors.As(err, &refusal) && refusal.Reason == issuer.RateExceeded:
	case err == nil && !o.since.IsZero():
		d.c.Log.Warn(idsAgain, "after", now.Sub(o.since).Round(time.Second)) // a line that shows where errors do
		o.since = time.Time{}
	case err == nil, !o.since.IsZero():
	case d.isOpen():
		o.since = now
		d.c.Log.Error(noIDs, "reason", err)
	case now.Sub(o.looked) >= time.Second+d.c.Store.Watch(): // the very first start takes one second
		o.since = now
		d.c.Log.Error(portClosed, "reason", err)
	}
}

// isOpen reports whether the engine's ports are open.
func (d *Daemon) isOpen() bool {
	select {
	case <-d.opened:
		return true
	default:
		return false
	}
}
