package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// A memory is what a Ledger knows of a sequence, whatever the store says. Ledger.mu guards it.
type memory struct {
	busy chan struct{} // full while a goroutine has the turn: calls for one sequence come one after another

	birth   string // of the record that was used; empty = none yet
	granted uint64 // the largest value that this process was granted and has not given back
	returns int    // how often it has given back
	read    uint64 // the largest value that a record said was granted, by whomever
	history string // of the server that granted it
	doubt   bool   // there was no record when this process asked, and there may have been one before

	wrote  Found // what the last write has left there. Only the goroutine that has the turn uses it
	within Fence // if that was in a term: mostly no other daemon writes until it ends
}

func (m *memory) leave() { <-m.busy }

// of returns the memory of a sequence.
func (l *Ledger) of(name string) *memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.known[name]
	if m == nil {
		m = &memory{busy: make(chan struct{}, 1)}
		l.known[name] = m
	}
	return m
}

func (l *Ledger) update(m *memory, f func(m *memory)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(m)
}

// enter waits for the turn of a sequence until ctx ends.
func (l *Ledger) enter(ctx context.Context, name string) (*memory, error) {
	if l.fence != nil {
		if err := l.fence.Check(name); err != nil {
			return nil, err
		}
	}
	if name == "" || len(name) > 64 {
		return nil, fmt.Errorf("%w: %q", counter.ErrUnknown, name)
	}
	m := l.of(name)
	select {
	case m.busy <- struct{}{}:
		return m, nil
	case <-ctx.Done():
		return nil, l.d.NoAnswer(name, ctx.Err())
	}
}

// remembers reports whether this process has used a record.
func (l *Ledger) remembers(m *memory) (was bool) {
	l.update(m, func(m *memory) { was = m.birth != "" || m.granted > 0 })
	return was
}

// missing is the error for a record that is not there.
func (l *Ledger) missing(name string) error {
	m := l.of(name)
	if l.remembers(m) {
		var granted uint64
		l.update(m, func(m *memory) { granted = max(m.granted, m.read) })
		return l.say(counter.ErrForeign, l.Lost, name, &counter.Record{}, granted, granted+1)
	}
	return l.say(counter.ErrUnknown, l.Unknown, name, &counter.Record{}, 0, 0)
}

// say is an error in a store's Words.
func (l *Ledger) say(what error, words, name string, r *counter.Record, granted, least uint64) error {
	if words == "" {
		return what
	}
	return fmt.Errorf("%w: %s", what, l.words(words, name, r, granted, least))
}

func (l *Ledger) words(words, name string, r *counter.Record, granted, least uint64) string {
	text := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return strings.NewReplacer("{NAME}", name, "{AT}", l.d.At(name), "{NEXT}", text(r.Next), "{GRANTED}", text(granted),
		"{LEAST}", text(least)).Replace(words)
}

// judge says why a record must not be gone on from. Otherwise it is the one to remember.
func (l *Ledger) judge(m *memory, found Found, e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weigh(m, found, e, m.granted, true)
}

// weigh is judge for a process that was granted so much, and may only look. The caller holds mu.
func (l *Ledger) weigh(m *memory, found Found, e Entry, granted uint64, remember bool) error {
	e = e.Copy()
	e.Adopt("") // what a loss has set back is no matter of an operator's
	r, birth := e.Plain(), e.Birth()
	least := min(granted+1, r.Max)
	made := m.doubt || m.birth != "" && birth != "" && m.birth != birth
	switch {
	case found.Foreign != "":
		return l.say(counter.ErrForeign, found.Foreign, found.Name, r, granted, min(max(r.Next, granted+1), r.Max))
	case made && r.Floor <= granted:
		return l.say(counter.ErrForeign, l.Again, found.Name, r, granted, least)
	case r.Next <= granted:
		return l.say(counter.ErrForeign, l.SetBack, found.Name, r, granted, least)
	case birth != "" && remember: // or else a loss may take it before anything was granted
		m.birth, m.doubt = birth, false
	}
	m.read = max(m.read, r.Next-min(r.Step, r.Next))
	return nil
}
