package daemon

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// Warnings for a daemon that records its windows nowhere. Its next run starts at the wall clock
// plus the run-ahead. So it repeats ids only if the last id was further ahead of the wall clock,
// which happens when the id clock did not follow the wall clock back.

const noRecord = "no state directory: "

// recorded reports whether there is a state directory. It gives up a default directory in which
// nothing can be recorded.
func (d *Daemon) recorded() bool {
	c := &d.c
	if c.StateDirByDefault && c.StateDir != "" {
		if err := static.Usable(c.StateDir, c.WorkerIDs, c.AnyDisk); err != nil {
			c.Log.Warn("the state directory by default cannot be used: name another one with -state-dir, or none", "state_dir", c.StateDir, "error", err)
			c.StateDir, c.StateDirByDefault = "", false
		}
	}
	return c.StateDir != ""
}

// warnOfRestarts is called when the id clock stays ahead of the wall clock. Ids may be ahead of the
// id clock by the run-ahead.
func (d *Daemon) warnOfRestarts(ahead time.Duration) {
	d.c.Log.Warn(noRecord+"once this daemon stops, do not start it again before the wall clock has passed its last id", "wait", ahead+d.c.MaxRunAhead)
}

// warnOfRestart says at the end how long a restart must wait, if at all.
func (d *Daemon) warnOfRestart() {
	if d.clock.StaysAhead == nil { // windows are recorded
		return
	}
	last := time.UnixMilli(d.issuer.Position())
	if wait := time.Until(last).Round(time.Millisecond); wait > d.c.MaxRunAhead {
		d.c.Log.Warn(noRecord+"do not start this daemon again before the wall clock has passed its last id", "wait", wait, "until", last.UTC())
	}
}
