package issuer

import (
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
// wait for may have come meanwhile, so the last such time does not count as theirs. Earlier ones do: a process
// that hardly runs must refuse sometime. All moments are ns of one clock.
type standstill struct {
	asked    int64 // when the last request that must wait asked
	from, to int64 // the last time without one that was longer than stall
}

// stall is longer than a busy process takes to ask again.
const stall = int64(200 * time.Millisecond)

// ask says that a request asks now, and must wait.
func (s *standstill) ask(now int64) {
	if now-s.asked > stall {
		s.from, s.to = s.asked, now
	}
	s.asked = now
}

// waited returns how much of the time from a moment until now counts.
func (s *standstill) waited(now, moment int64) time.Duration {
	return time.Duration(now - moment - max(0, s.to-max(s.from, moment)))
}
