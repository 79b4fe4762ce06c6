package static

import (
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Clocks are readings of this machine's clocks at one moment, in ms.
type Clocks struct {
	Wall   int64  // Unix ms
	Boot   int64  // since boot, suspension included: a clock that is never set
	BootID string // names the boot; empty if Boot only counts since the process started
}

var processStart = time.Now()

// processClocks reads the clocks of a system without CLOCK_BOOTTIME.
func processClocks() Clocks {
	t := time.Now()
	return Clocks{Wall: t.UnixMilli(), Boot: t.Sub(processStart).Milliseconds()}
}

const (
	stepTolerance = 10_000 // ms that the wall clock may have gained on Boot without being suspected
	stepHold      = 50_000 // ms that a larger gain must have lasted; less than the id clock waits before it follows
)

// A guard protects a worker id from a wall clock that is far ahead for a moment: a recorded mark
// cannot be taken back. It compares the wall clock with a clock that is never set, and lets marks
// follow a step forward only after the step has lasted a while.
//
// It ignores steps back, because marks do not follow them.
type guard struct {
	trusted int64 // largest wall − boot that marks may follow
	started bool
	stepped int64 // a larger wall − boot that is being watched,
	since   int64 // from this Boot on
}

// start begins with what an earlier run of the same boot trusted, if it left a record, else with the
// present.
func (g *guard) start(c Clocks, r *record) {
	g.trusted, g.started = c.Wall-c.Boot, true
	if r != nil && r.Boot != "" && r.Boot == c.BootID {
		g.trusted = r.Offset
	}
	g.look(c)
}

func (g *guard) look(c Clocks) {
	offset := c.Wall - c.Boot
	switch {
	case offset <= g.trusted+stepTolerance:
		g.trusted, g.stepped = max(g.trusted, offset), 0
	case g.stepped == 0 || offset < g.stepped-stepTolerance || offset > g.stepped+stepTolerance:
		g.stepped, g.since = offset, c.Boot
	case c.Boot-g.since >= stepHold:
		g.trusted, g.stepped = offset, 0
	}
}

// check returns why marks must not follow now, the id clock's time, or nil.
func (g *guard) check(c Clocks, now int64) error {
	g.look(c)
	ahead := now - (c.Boot + g.trusted)
	if ahead <= stepTolerance {
		return nil
	}
	return fmt.Errorf("%w: the clock went %v forward, which is accepted after it has lasted %v",
		workerid.ErrSkew, (time.Duration(ahead) * time.Millisecond).Round(time.Second), stepHold*time.Millisecond)
}
