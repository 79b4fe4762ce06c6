package explore

import (
	"errors"
	"fmt"
)

// A promise is what a world keeps until it is known what is wrong.
type promise struct{ wrong string }

// Err implements World.
func (p *promise) Err() error {
	if p.wrong == "" {
		return nil
	}
	return errors.New(p.wrong)
}

// A window is what a daemon was granted, and up to where it may have issued ids of it.
type window struct {
	worker       uint64
	lo, hi, used int64
	daemon       int   // -1 if that has ended
	page         int   // where its word is, in the world of files
	from         int64 // no id is of an earlier time: the clock was there; 0 = unknown
}

// lengthen notes a grant that goes on from an earlier one.
func lengthen(all []window, daemon int, worker uint64, lo, hi int64) {
	for n := range all {
		if x := &all[n]; x.daemon == daemon && x.worker == worker && x.lo == lo {
			x.hi = max(x.hi, hi)
		}
	}
}

// use notes up to where daemons may have issued ids by now, by their clocks.
func use(all []window, clock func(daemon int) int64) {
	for n := range all {
		if x := &all[n]; x.daemon >= 0 {
			x.used = max(x.used, min(x.hi, clock(x.daemon)+runAhead))
		}
	}
}

// end ends the windows of a daemon: they reach as far as it has issued.
func end(all []window, daemon int) {
	for n := range all {
		if all[n].daemon == daemon {
			all[n].daemon = -1
		}
	}
}

// apart notes which two windows were both used where they overlap.
func (p *promise) apart(all []window) {
	for i, x := range all {
		for _, y := range all[:i] {
			if x.worker == y.worker && max(x.lo, x.from, y.lo, y.from) <= min(x.used, y.used) {
				p.wrong = fmt.Sprintf("worker id %d: windows %d..%d and %d..%d were both used, up to %d and %d (ms)",
					x.worker, x.lo-began, x.hi-began, y.lo-began, y.hi-began, x.used-began, y.used-began)
				return
			}
		}
	}
}

func visitWindows(all []window, d *digest) {
	for _, x := range all {
		d.Number(int64(x.worker))
		d.times(x.lo, x.hi, x.used)
		d.Number(int64(x.daemon))
	}
}
