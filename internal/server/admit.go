package server

import (
	"sync/atomic"
	"time"
)

// Admit counts a connection that was just accepted and says whether it may stay. One that may not is to be sent its port's Refusal and closed;
// it is no longer counted as open.
func (c *Config) Admit() bool {
	n := c.Counters
	n.Total.Add(1)
	if n.Current.Add(1) <= c.MaxConnections || c.MaxConnections <= 0 {
		return true
	}
	n.Current.Add(-1)
	n.Refused.Add(1)
	c.tellRefused()
	return false
}

// Share makes a new owner's share of Budget, or of one without a limit.
func (c *Config) Share(relieve, trim func()) *Share {
	if c.Budget == nil {
		return NewBudget(0).Share(relieve, trim)
	}
	return c.Budget.Share(relieve, trim)
}

// linePause is the time between two lines about refused, or about closed, connections: who is over a limit may try all the time.
const linePause = time.Minute

// told is when such a line was written, and what the count was then.
type told struct {
	at    time.Time
	count uint64
}

func (c *Config) tellRefused() {
	if since, due := dueLine(&c.Counters.told, c.Counters.Refused.Load()); due {
		c.Log.Warn("too many connections", "limit", c.MaxConnections, "refused", since)
	}
}

// dueLine tells whether a line about what was counted is due, and how much was since the last one. p is when that was.
func dueLine(p *atomic.Pointer[told], count uint64) (since uint64, due bool) {
	last, before := p.Load(), uint64(0)
	if last != nil {
		if before = last.count; time.Since(last.at) < linePause {
			return 0, false
		}
	}
	return count - before, p.CompareAndSwap(last, &told{time.Now(), count}) // else another loop tells it
}

// A Backoff spaces the attempts to accept after one has failed, since the usual reason, too many open files, lasts. A busy loop would
// take the time from the connections that are to be served and closed.
type Backoff struct {
	wait time.Duration
}

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Failed counts and logs the error, once per series of failures, and returns how long to wait.
func (b *Backoff) Failed(c *Config, err error) time.Duration {
	c.Counters.AcceptErrors.Add(1)
	if b.wait == 0 {
		c.Log.Warn("cannot accept connections, trying again", "error", err)
		b.wait = minBackoff
		return b.wait
	}
	b.wait = min(2*b.wait, maxBackoff)
	return b.wait
}

func (b *Backoff) Succeeded(c *Config) {
	if b.wait != 0 {
		c.Log.Info("accepting connections again")
		b.wait = 0
	}
}

// Idle time is counted in sweeps, idleSweeps of them to a time-out, so that a busy connection pays one store for it and no system call.
// The clock of the daemon is not asked, since it may be stepped.
const idleSweeps = 8

func SweepPeriod(timeout time.Duration) time.Duration {
	return max(timeout/idleSweeps, time.Millisecond)
}

// Idle tells whether a connection that was last active after sweep number last has been idle for the whole time-out at sweep now.
func Idle(now, last uint32) bool { return now-last > idleSweeps }
