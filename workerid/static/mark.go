package static

import (
	"fmt"
	"log/slog"
	"time"
)

// A mark is a high-water mark that a goroutine writes to a file and moves ahead while ids are issued. Its owner's mutex
// guards it.
type mark struct {
	highWater int64 // recorded for certain
	pushing   *push // the write that is under way, or the last one
}

// A push is a write that moves a mark ahead.
type push struct {
	highWater int64
	begun     int64         // the id clock's time
	done      chan struct{} // closed at its end
	err       error         // valid then
	told      bool          // that it takes long
}

func (p *push) isOver() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// begin notes that a write begins now. The one before is over.
func (m *mark) begin(highWater, now int64) (p, before *push) {
	before = m.pushing
	m.pushing = &push{highWater: highWater, begun: now, done: make(chan struct{})}
	return m.pushing, before
}

// pushed records the result of a write, and logs it if it is news. log says which file.
func (m *mark) pushed(p, before *push, err error, c *Config, log *slog.Logger) {
	p.err = err
	switch failed := before != nil && before.err != nil; {
	case err != nil && !failed:
		log.Warn("state file not written: ids go on from what was reserved", "error", err, "left", ms(m.highWater-c.Now()))
	case err == nil && (failed || p.told):
		log.Info("state file written again", "took", ms(c.Now()-p.begun))
	}
	if err == nil {
		m.highWater = p.highWater
	}
}

const slow = 3000 // ms that a write may take before it is worth a line

// stalled logs, once for each write, that it takes long. log says which file.
func (m *mark) stalled(now int64, log func() *slog.Logger) {
	p, since := m.pushing, now-m.pushing.begun
	if since >= slow && !p.told {
		p.told = true
		log().Warn("the disk of the state file does not answer: ids go on from what was reserved", "for", ms(since),
			"left", ms(m.highWater-now))
	}
}

// behind returns why the mark is not recorded any further, if that is worth a line, or nil.
func (m *mark) behind(now int64) error {
	switch p := m.pushing; {
	case p == nil:
	case p.isOver():
		return p.err
	case now-p.begun >= slow:
		return fmt.Errorf("the disk has not answered for %v", ms(now-p.begun).Truncate(time.Second))
	}
	return nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
