package explore

import "fmt"

// A window is what a daemon was granted, and up to where it may have issued ids of it.
type window struct {
	worker       uint64
	lo, hi, used int64
	daemon, life int   // -1 if that has ended
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

// overlap says which two windows were both used where they overlap; "" = none.
func overlap(all []window) string {
	for i, x := range all {
		for _, y := range all[:i] {
			if x.worker == y.worker && max(x.lo, x.from, y.lo, y.from) <= min(x.used, y.used) {
				return fmt.Sprintf("worker id %d: windows %d..%d and %d..%d were both used, up to %d and %d (ms)",
					x.worker, x.lo-began, x.hi-began, y.lo-began, y.hi-began, x.used-began, y.used-began)
			}
		}
	}
	return ""
}

func visitWindows(all []window, d *digest) {
	for _, x := range all {
		d.Number(int64(x.worker))
		d.Time(x.lo)
		d.Time(x.hi)
		d.Time(x.used)
		d.Number(int64(x.daemon))
	}
}
