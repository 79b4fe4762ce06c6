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
	began uint64 // came + 1 at the beginning of the last drought,
	since time.Time
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
	if d.began <= supplies {
		d.began, d.since, first = supplies+1, time.Now(), true
	}
	return time.Since(d.since), first
}

// lasting returns for how long the present drought has lasted. ok = false: there is none.
func (d *drought) lasting() (_ time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.since), d.began == d.came.Load()+1
}
