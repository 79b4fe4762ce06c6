package client

import (
	"sync/atomic"
	"time"
)

// An ageClock tells how old ids are. Go's monotonic clock is quick to read but stands still while
// the machine sleeps; boot runs on, but costs a system call. So the difference of the two is kept, and
// read again after lookAgain of the monotonic clock. It is ready for many goroutines.
type ageClock struct {
	base   time.Time
	boot   func() int64
	offset atomic.Int64 // boot - monotonic, ns; only grows
	looked atomic.Int64 // when, on the monotonic clock
}

const lookAgain = int64(100 * time.Microsecond)

func newAgeClock(base time.Time, boot func() int64) *ageClock {
	c := &ageClock{base: base, boot: boot}
	c.offset.Store(boot() - int64(time.Since(base)))
	return c
}

// now is nanoseconds since an unknown moment.
func (c *ageClock) now() int64 {
	m := int64(time.Since(c.base))
	if d := m - c.looked.Load(); d < 0 || d >= lookAgain {
		c.look(m)
	}
	return m + c.offset.Load()
}

func (c *ageClock) look(m int64) {
	slept := c.boot() - m
	for old := c.offset.Load(); slept > old && !c.offset.CompareAndSwap(old, slept); old = c.offset.Load() {
	}
	c.looked.Store(m)
}
