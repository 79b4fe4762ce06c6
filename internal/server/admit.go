package server

import (
	"sync/atomic"
	"time"
)

// Admit counts a newly accepted connection and reports whether it may stay. If not, the caller
// sends it the port's Refusal and closes it; it is no longer counted as open.
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

// Share makes a share of Budget, or of an unlimited budget if there is none.
func (c *Config) Share(relieve, trim func()) *Share {
	if c.Budget == nil {
		return NewBudget(0).Share(relieve, trim)
	}
	return c.Budget.Share(relieve, trim)
}

// linePause is the time between two log lines about refused connections, or about connections that
// the budget closed: a client over a limit may retry all the time.
const linePause = time.Minute

// told records when such a line was written and what the count was then.
type told struct {
	at    time.Time
	count uint64
}

func (c *Config) tellRefused() {
	if since, due := dueLine(&c.Counters.told, c.Counters.Refused.Load()); due {
		c.Log.Warn("too many connections", "limit", c.MaxConnections, "refused", since)
	}
}

// dueLine reports whether it is time for another log line, and how much was counted since the last
// one. p holds the last line.
func dueLine(p *atomic.Pointer[told], count uint64) (since uint64, due bool) {
	last, before := p.Load(), uint64(0)
	if last != nil {
		if before = last.count; time.Since(last.at) < linePause {
			return 0, false
		}
	}
	return count - before, p.CompareAndSwap(last, &told{time.Now(), count}) // false: another loop writes the line
}

// A Backoff spaces out attempts to accept after a failure. The usual cause, too many open files,
// lasts; retrying in a busy loop would take CPU time from serving and closing connections.
type Backoff struct {
	wait time.Duration
}

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Failed counts the error and returns how long to wait. It logs only the first error of a series.
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

// Succeeded notes that a connection was accepted. The next failure waits for the shortest time again.
func (b *Backoff) Succeeded(c *Config) {
	if b.wait != 0 {
		c.Log.Info("accepting connections again")
		b.wait = 0
	}
}

// Idle time is counted in sweeps, idleSweeps per time-out. So a busy connection pays one store for
// it and no system call. It does not use the daemon's clock, which may be stepped.
const idleSweeps = 8

// SweepPeriod returns the time between two sweeps for an idle time-out, at least 1 ms.
func SweepPeriod(timeout time.Duration) time.Duration {
	return max(timeout/idleSweeps, time.Millisecond)
}

// Idle reports whether, at sweep now, a connection last active after sweep number last has been
// idle for the whole time-out.
func Idle(now, last uint32) bool { return now-last > idleSweeps }
