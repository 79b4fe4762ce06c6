package daemon

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// What is said of a daemon whose windows are recorded nowhere. Its next run starts the run-ahead past the wall clock, so it repeats no id unless
// the last one lies further ahead than that. That is so where the id clock did not follow the wall clock back.

const noRecord = "no state directory: "

// recorded finds out whether there is a state directory, and gives up one by default in which nothing can be recorded.
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

// warnOfRestarts is told that the id clock stays ahead of the wall clock. Ids may come the run-ahead later still.
func (d *Daemon) warnOfRestarts(ahead time.Duration) {
	d.c.Log.Warn(noRecord+"once this daemon stops, do not start it again before the wall clock has passed its last id", "wait", ahead+d.c.MaxRunAhead)
}

// warnOfRestart says at the end how long a restart has to wait, if it has to.
func (d *Daemon) warnOfRestart() {
	if d.clock.StaysAhead == nil { // there is a record
		return
	}
	last := time.UnixMilli(d.issuer.Position())
	if wait := time.Until(last).Round(time.Millisecond); wait > d.c.MaxRunAhead {
		d.c.Log.Warn(noRecord+"do not start this daemon again before the wall clock has passed its last id", "wait", wait, "until", last.UTC())
	}
}
