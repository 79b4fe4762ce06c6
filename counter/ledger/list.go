package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Show implements counter.Admin.
func (l *Ledger) Show(ctx context.Context, name string) (counter.Record, error) {
	return ask(ctx, l, func() (counter.Record, error) { return l.show(ctx, name) })
}

// show reads one record. With a Locker, one that seems damaged may be one that is being written.
func (l *Ledger) show(ctx context.Context, name string) (r counter.Record, err error) {
	m, err := l.enter(ctx, name)
	if err != nil {
		return r, err
	}
	defer m.leave()
	j := &job{name: name}
	load := func() error {
		found, err := l.d.Load(ctx, []string{name})
		if err == nil {
			j.found, err = found[0], found[0].Fault
		}
		return err
	}
	err = load()
	if _, ok := l.d.(Locker); ok && errors.Is(err, counter.ErrDamaged) {
		err = l.locked(ctx, name, load)
	}
	switch {
	case err != nil:
		return r, err
	case j.found.Entry == nil:
		return r, l.missing(name)
	}
	return *j.found.Entry.Plain(), cmp.Or(l.judge(m, j.found, j.found.Entry), j.found.Waits)
}

// List implements counter.Admin.
func (l *Ledger) List(ctx context.Context) ([]counter.Record, error) {
	return ask(ctx, l, func() ([]counter.Record, error) { return l.list(ctx, false) })
}

// A had is what a process was granted when a list began.
type had struct {
	granted uint64
	returns int
}

// list reads all records, and remembers them or only looks. Others may reserve and give back meanwhile: what was
// granted both before and after must be granted in a record, unless it was given back and granted again.
func (l *Ledger) list(ctx context.Context, remember bool) (list []counter.Record, err error) {
	before := map[string]had{}
	l.mu.Lock()
	for name, m := range l.known {
		before[name] = had{m.granted, m.returns}
	}
	l.mu.Unlock()
	all, err := l.d.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, found := range all {
		var r counter.Record
		switch {
		case found.Unread:
			if r, err = l.show(ctx, found.Name); ctx.Err() != nil {
				return nil, cmp.Or(err, ctx.Err())
			}
		case found.Entry != nil:
			r, err = l.judgeListed(found, before[found.Name], remember)
		default:
			err = found.Fault
		}
		if r.Name == "" {
			r = counter.Unread(found.Name, err)
		}
		r.Fault = err
		list = append(list, r)
	}
	return list, nil
}

// judgeListed judges a record of a list. If its server may have lost what this process was granted, that is not
// used any more.
func (l *Ledger) judgeListed(found Found, before had, remember bool) (r counter.Record, err error) {
	m := l.of(found.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	r = *found.Entry.Plain()
	if m.history != "" && m.history != found.History {
		r.Floor = max(r.Floor, m.granted+1)
	}
	granted := min(before.granted, m.granted)
	if before.returns != m.returns { // it may have been less meanwhile: Reserve judges
		granted, remember = 0, false
	}
	return r, cmp.Or(l.weigh(m, found, found.Entry, granted, remember), found.Waits)
}

// told is what the last Changes has said.
type told struct {
	now    string
	digest [sha256.Size]byte
}

// Changes implements counter.Store. It notes what this process has learnt of.
func (l *Ledger) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	type answer struct {
		now     string
		records []counter.Record
	}
	a, err := ask(ctx, l, func() (a answer, err error) {
		if a.now, err = l.d.Changes(ctx); err != nil {
			return a, err
		}
		l.sign(ctx, since)
		if a.now == since {
			return a, nil
		}
		a.records, err = l.list(ctx, true) // after the text: what is written in between is told twice
		return a, err
	})
	if err != nil {
		return since, nil, err
	}
	if a.now == since || l.same(since, a.now, a.records) {
		return a.now, nil, nil
	}
	return a.now, a.records, nil
}

// same reports whether since is what was told last, and nothing but blocks have come and gone since.
func (l *Ledger) same(since, now string, records []counter.Record) bool {
	sum := sha256.New()
	for _, r := range records {
		fmt.Fprintln(sum, r.Definition, r.Floor, r.Retired, r.Fault)
	}
	next := told{now: now, digest: [sha256.Size]byte(sum.Sum(nil))}
	l.mu.Lock()
	defer l.mu.Unlock()
	same := since == l.told.now && next.digest == l.told.digest
	l.told = next
	return same
}
