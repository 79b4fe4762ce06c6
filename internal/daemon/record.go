package daemon

import (
	"errors"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// Warnings for a daemon that records its windows nowhere. Its next run starts at the wall clock
// plus the run-ahead. So it repeats ids only if the last id was further ahead of the wall clock,
// which happens when the id clock did not follow the wall clock back.

const noRecord = "no state directory: "

// checkRecord returns why the windows of worker ids cannot be recorded in the state directory by default.
// To run without a record is the user's decision.
func (c *Config) checkRecord() error {
	if !c.StateDirByDefault {
		return nil
	}
	err := errors.New("neither XDG_STATE_HOME nor HOME is an absolute path")
	if c.StateDir != "" {
		if err = static.Usable(c.StateDir, c.WorkerIDs, c.AnyDisk); err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", c.StateDir, err)
	}
	return fmt.Errorf("the state directory by default cannot be used: %w: name another one with -state-dir; "+
		"with -state-dir none the daemon starts without a record, "+
		"and ids repeat if the clock goes back before the next start", err)
}

// record names what records the windows of the worker ids.
func (c *Config) record() string {
	switch {
	case c.leased():
		return "store"
	case c.StateDir != "":
		return "state_dir"
	}
	return "none"
}

// warnOfRestarts is called when the id clock stays ahead of the wall clock. Ids may be ahead of the
// id clock by the run-ahead.
func (d *Daemon) warnOfRestarts(ahead time.Duration) {
	d.c.Log.Warn(noRecord+"once this daemon stops, do not start it again before the wall clock has passed its last id",
		"wait", ahead+d.c.MaxRunAhead)
}

// warnOfRestart says at the end how long a restart must wait, if at all.
func (d *Daemon) warnOfRestart() {
	if d.clock.StaysAhead == nil { // windows are recorded
		return
	}
	last := time.UnixMilli(d.issuer.Position())
	if wait := time.Until(last).Round(time.Millisecond); wait > d.c.MaxRunAhead {
		d.c.Log.Warn(noRecord+"do not start this daemon again before the wall clock has passed its last id", "wait", wait,
			"until", last.UTC())
	}
}
