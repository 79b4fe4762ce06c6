package counter

import (
	"context"
	"fmt"
	"time"
)

// This file has what is different for sequences of timestamps, see Time.

// A Span is what a record of timestamps must grant: the positions from From on, or from the first free one
// if that is larger, up to To, or for a new Term at least Need of them. The last tick is granted whole.
type Span struct {
	From uint64 // the position of now
	To   uint64
	Need uint64
	Tick uint64 // positions in a tick, less 1
	Term string // names who asks: one Machine. It is never used again
}

// A Timekeeper is a Store that grants timestamps. The Block is all that the Span's Term owns, from its first grant on,
// less what was raised. So to ask again after an answer was lost grants nothing twice, and leaves no gap.
type Timekeeper interface {
	Advance(ctx context.Context, name string, s Span) (Block, error)
}

// A TimedIssuer is the Issuer of timestamps. Its Left says that a client waits when half of the block is used up.
type TimedIssuer interface {
	Issuer
	// Span returns the Span that the issuer needs now, without a Term. ok = false: the time is not known yet.
	Span(need uint64) (s Span, ok bool)
}

// Advance grants timestamps. The first grant of a Term begins above all that others had, however far ahead of the clock
// that is; no grant adds to what is ahead already. The errors are ErrRetired and ErrEnded.
func (r *Record) Advance(s Span, token string) (Block, error) {
	hi := max(r.Next-1, s.To)
	switch {
	case r.Retired:
		return Block{}, ErrRetired
	case r.Term != s.Term && r.Next > r.Max:
		return Block{}, ErrEnded
	case r.Term != s.Term:
		r.Term, r.Begin = s.Term, max(r.Next, s.From)
		hi = max(hi, r.Begin-1+s.Need)
	}
	r.Begin = max(r.Begin, r.Floor)
	hi = min(max(hi, r.Begin)|s.Tick, r.Max)
	if r.Begin > r.Max {
		return Block{}, ErrEnded
	}
	r.Next, r.Token = hi+1, token
	return Block{Lo: r.Begin, Hi: hi, Token: token}, nil
}

// NodeTaken is the ErrNode of a definition whose node another sequence has.
func NodeTaken(d Definition, by string) error {
	return fmt.Errorf("%w: node=%d of layout %s is that of %s", ErrNode, d.Time.Node, d.Time.Layout, by)
}

// How the need of timestamps ahead of the clock changes: where the last one was half used up so soon, it grows. It is
// small, because each kill of a daemon moves the record on by it.
const (
	hurried = 25 * time.Millisecond
	relaxed = time.Second
)

// needTimed is Need for timestamps: names without clients ask for nothing, though the clock goes on.
func (m *Machine) needTimed(now time.Time, short uint64) uint64 {
	if _, known := m.to.(TimedIssuer).Span(1); short == 0 || !known {
		return 0
	}
	m.calling = true
	m.asked = max(m.size, firstBlock)
	switch elapsed := now.Sub(m.at); {
	case m.size == 0:
	case elapsed < hurried:
		m.asked = min(m.asked*growth, maxBlock)
	case elapsed > relaxed:
		m.asked = max(m.asked/growth, firstBlock)
	}
	return max(m.asked, short)
}

// Span returns what to ask a Timekeeper for, where Need has returned n. ok = false: it is no sequence of timestamps.
func (m *Machine) Span(n uint64) (s Span, ok bool) {
	if !m.def.Timed() {
		return s, false
	}
	s, _ = m.to.(TimedIssuer).Span(n)
	s.Term = m.term
	return s, true
}

// reserve asks a Store for what a Machine needs.
func reserve(ctx context.Context, store Store, name string, n uint64, s *Span) (Block, error) {
	if s == nil {
		return store.Reserve(ctx, name, n)
	}
	if t, ok := store.(Timekeeper); ok {
		return t.Advance(ctx, name, *s)
	}
	return Block{}, fmt.Errorf("%w: it grants no timestamps", ErrOrder)
}
