package issuer

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A drought measures for how long a source has had nothing to issue: since the first request that found
// nothing, so that a process that was stopped meanwhile does not count that time. Any goroutine may
// call its methods. The zero value is a source that has yet to be asked.
type drought struct {
	came  atomic.Uint64 // how often something came
	mu    sync.Mutex
	began uint64    // came + 1 at the beginning of the last drought,
	since int64     // in ns from base
	base  time.Time // of the first question
	still standstill
}

// supplies returns how often something came. It must be read before the source is asked.
func (d *drought) supplies() uint64 { return d.came.Load() }

// supplied ends a drought: the next request that finds nothing begins another one. What came must be
// there for requests already.
func (d *drought) supplied() { d.came.Add(1) }

// lasts is called for a request that found nothing after supplies was read. It returns for how long that
// has been so, and whether this request is the first.
func (d *drought) lasts(supplies uint64) (_ time.Duration, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base.IsZero() {
		d.base = time.Now()
	}
	now := d.now()
	d.still.ask(now)
	if d.began <= supplies {
		d.began, d.since, first = supplies+1, now, true
	}
	return d.still.waited(now, d.since), first
}

// lasting returns for how long the present drought has lasted. ok = false: there is none.
func (d *drought) lasting() (_ time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.still.waited(d.now(), d.since), d.began == d.came.Load()+1
}

func (d *drought) now() int64 { return int64(time.Since(d.base)) }

// A standstill notices that the process was stopped while requests waited: they ask again every 50 ms. What they
// wait for may have come meanwhile, so the longest of the pauses in which one waited does not count as its wait. The
// others do: a process that hardly runs must refuse sometime. All moments are ns of one clock.
type standstill struct {
	asked  int64   // when the last request that must wait asked
	pauses []pause // times without one that were longer than stall, each shorter than the one before it
}

type pause struct{ from, to int64 }

const (
	stall      = int64(200 * time.Millisecond) // longer than a busy process takes to ask again
	mostPauses = 8
)

// ask says that a request asks now, and must wait.
func (s *standstill) ask(now int64) {
	if last := (pause{s.asked, now}); now-s.asked > stall {
		// Of an earlier pause that was shorter no request has waited longer than of this one.
		s.pauses = slices.DeleteFunc(s.pauses, func(p pause) bool { return p.to-p.from <= last.to-last.from })
		if len(s.pauses) == mostPauses {
			s.pauses = slices.Delete(s.pauses, 0, 1)
		}
		s.pauses = append(s.pauses, last)
	}
	s.asked = now
}

// waited returns how much of the time from a moment until now counts.
func (s *standstill) waited(now, moment int64) time.Duration {
	longest := int64(0)
	for _, p := range s.pauses {
		longest = max(longest, p.to-max(p.from, moment))
	}
	return time.Duration(now - moment - longest)
}
