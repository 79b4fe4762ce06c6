package generator

import (
	"math"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A Companion issues ids of another layout beside a Snowflake: for the same worker id, in the same
// window.
//
// It counts in a word of its own, which no record has: the next run reads only the Snowflake's word.
// So before the Companion issues from a tick, it moves the Snowflake's word past the end of that tick.
//
//	Companion's ids  <  Snowflake's next free position, in time    whenever both are read
//
// Therefore a process that continues above the Snowflake's last id also continues above the Companion's. And a
// Companion may begin where the Snowflake's next id is, however many Companions there were before.
//
// The price: the Snowflake loses the rest of those of its ticks. It must be allowed to run further ahead
// of the clock than its Companions, by more than a tick of each, or they leave it no ids.
//
// All methods may be called from any goroutine.
type Companion struct {
	main, own *Snowflake
}

// NewCompanion makes the Companion of main that issues ids of layout l. While main is in use, there must
// be only one for each layout, or those before must have been sealed. The error says that l has no
// such worker id, or ended before the window begins.
func NewCompanion(main *Snowflake, l Layout, randomStart bool) (*Companion, error) {
	own, err := NewSnowflake(Options{
		Layout: l, Worker: main.Worker(), RandomStart: randomStart,
		Lo: max(main.lo, main.Next()), Hi: math.MaxInt64, // main's end counts
	})
	if err != nil {
		return nil, err
	}
	return &Companion{main, own}, nil
}

// ResumeCompanion makes the Companion that goes on where another one has ended: at next, its last Word. The
// caller must know that no other process has issued ids of this worker id and layout since, for example because
// main's window begins right after the final position of the Snowflake that the other one was beside. That
// one's word had passed all ticks before next, and main's begins above it, so the order of the two words holds.
// If next is not before the place where NewCompanion begins, this is NewCompanion. The errors are the same.
func ResumeCompanion(main *Snowflake, l Layout, randomStart bool, next uint64) (*Companion, error) {
	c, err := NewCompanion(main, l, randomStart)
	if err != nil || next >= c.own.next.Load() {
		return c, err
	}
	lo := l.Epoch + int64(next>>l.SequenceBits)*l.Unit
	if lo < main.epoch { // main's word cannot be before its epoch, so no Companion's was
		return c, nil
	}
	own, err := NewSnowflake(Options{
		Layout: l, Worker: main.Worker(), RandomStart: randomStart, Lo: lo, Hi: math.MaxInt64,
	})
	if err != nil {
		return nil, err
	}
	own.next.Store(next)
	return &Companion{main, own}, nil
}

// Word returns the next free position, for ResumeCompanion.
func (c *Companion) Word() uint64 { return c.own.next.Load() &^ sealed }

// Take issues ids as Snowflake.TakeLeaving does, with the same errors.
func (c *Companion) Take(now, limit int64, n int, leave uint64) (id.Run, error) {
	for {
		last := c.own.tickEnd(now)
		run, err := c.takeFrom(last, now, limit, n, leave)
		if err != ErrAhead || last >= limit { // else others have used up that tick meanwhile
			return run, err
		}
	}
}

// takeFrom takes from the tick that ends at last, or from an earlier one that others left ids in.
func (c *Companion) takeFrom(last, now, limit int64, n int, leave uint64) (id.Run, error) {
	if err := c.check(last, limit); err != nil {
		return id.Run{}, err
	}
	if err := c.main.skip(last); err != nil {
		return id.Run{}, err
	}
	if last < limit { // there is a later tick, so this one is not the one to leave ids in
		limit, leave = last, 0
	}
	return c.own.TakeLeaving(now, limit, n, leave)
}

// check returns why no id may be issued from the tick that ends at last.
func (c *Companion) check(last, limit int64) error {
	switch {
	case c.main.next.Load() >= sealed:
		return ErrSealed
	case last-c.own.unit >= limit: // the tick's start is past the limit
		return ErrAhead
	case last > c.main.End():
		return c.main.over()
	}
	return nil
}

// Check returns the error that a Take with the same arguments would return now, without taking ids.
func (c *Companion) Check(now, limit int64) error {
	if err := c.check(c.own.tickEnd(now), limit); err != nil {
		return err
	}
	return c.own.Check(now, limit)
}

// Next is Snowflake.Next.
func (c *Companion) Next() int64 { return c.own.Next() }

// Position is Snowflake.Position.
func (c *Companion) Position() int64 { return c.own.Position() }

// Used reports whether it has issued any id.
func (c *Companion) Used() bool { return c.own.Used() }

// End returns the last Unix ms of the last tick that lies wholly in the window.
func (c *Companion) End() int64 {
	l := &c.own.layout
	_, end := l.window(c.own.lo, c.main.End())
	return l.Epoch + int64(end)*l.Unit - 1
}

// Seal stops the Companion for good. To give back the window, seal the Snowflake first; its position
// is above the Companion's ids.
func (c *Companion) Seal() { c.own.Seal() }

// tickEnd returns the last Unix ms of the first tick from which a Take at now could issue.
func (s *Snowflake) tickEnd(now int64) int64 {
	tick := int64(s.next.Load() &^ sealed >> s.seqBits)
	if start := s.epoch + tick*s.unit; now >= start+s.unit {
		tick = (now - s.epoch) / s.unit
	}
	return s.epoch + (tick+1)*s.unit - 1
}

// Skip gives up all positions up to the Unix millisecond ms. The error is ErrWindow, and nothing has
// changed, if the window ends before that; or ErrSealed.
func (s *Snowflake) Skip(ms int64) error {
	switch {
	case ms < s.Next():
		return nil
	case ms > s.End():
		return s.over()
	}
	return s.skip(ms)
}

// skip gives up all positions up to the Unix millisecond ms, which must not lie outside the window. The
// only error is ErrSealed.
func (s *Snowflake) skip(ms int64) error {
	tick := uint64(ms-s.epoch)/uint64(s.unit) + 1 // the first that begins after ms
	for {
		next := s.next.Load()
		switch {
		case next >= sealed:
			return ErrSealed
		case next >= tick<<s.seqBits:
			return nil
		case s.next.CompareAndSwap(next, tick<<s.seqBits):
			return nil
		}
	}
}
