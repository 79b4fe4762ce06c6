package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
)

// A version is what was read with a record.
type version struct {
	on    server
	began string // the history in which the namespace began, empty if it has not
	text  string // of the record, empty if there is none
}

// field is the name of a record in the hash.
func field(name string) string { return "=" + name }

// New implements ledger.Driver. Only an operator begins a namespace. If Redis has restarted or failed over since, a
// record that is missing may have been forgotten: then only an operator makes it, and nothing is granted before
// Raise.
func (d driver) New(found ledger.Found, def counter.Definition, token string) (ledger.Entry, error) {
	v := found.Version.(version)
	forgotten := found.Fault == nil && v.began != "" && v.began != v.on.History
	if found.Fault == nil && !d.c.Operator && (v.began == "" || forgotten) {
		why := "no sequence was ever recorded there, or all were lost"
		if forgotten {
			why = "it may have been lost, as Redis has restarted or failed over since the first one was recorded there"
		}
		return nil, ledger.As(ledger.ErrDoubt, fmt.Errorf("%w: Redis at %s has no sequence %s as %s; %s: `katsubushi "+
			"name create` makes it; if there was one, raise it above every value that was issued before a daemon "+
			"serves it", counter.ErrForeign, d.At(""), def.Name, d.key, why))
	}
	return &entry{line.New(def, v.on.Moment, forgotten, token), v.on}, nil
}

// Load implements ledger.Driver.
func (d driver) Load(_ context.Context, names []string) ([]ledger.Found, error) {
	before := d.c.now()
	on, values, err := d.read(field(names[0]), "history")
	if err != nil {
		return nil, err
	}
	v := version{on, values[1].text, values[0].text}
	found := ledger.Found{Name: names[0], Version: v}
	if values[0].there {
		found = d.found(names[0], v)
	}
	if found.Closed = skewed(before, on.Now, d.c.now()); found.Closed == nil {
		found.Closed = d.oneMaster(on, v.began)
	}
	found.Fixed = on.enoughToChange()
	return []ledger.Found{found}, nil
}

// found reads a record's text.
func (d driver) found(name string, v version) ledger.Found {
	found := ledger.Found{Name: name, Version: v}
	r, err := line.Decode(v.text)
	if err == nil && r.Name != name {
		err = fmt.Errorf("it is that of %s", r.Name)
	}
	where := fmt.Sprintf("sequence %s as %s in Redis", name, d.key)
	switch {
	case errors.Is(err, line.ErrVersion):
		found.Fault = fmt.Errorf("%w: %s: %w", counter.ErrUnusable, where, err)
	case err != nil:
		found.Fault = counter.Damaged(name, where, err)
	default:
		found.Entry = &entry{r, v.on}
		switch err := r.Usable(v.on.Moment); {
		case !errors.Is(err, counter.ErrForeign):
		case r.Foreign:
			found.Foreign = strings.TrimPrefix(err.Error(), counter.ErrForeign.Error()+": ")
		default: // on-loss=refuse
			found.Waits = err
		}
	}
	return found
}

// Swap implements ledger.Driver. What an operator writes counts after Settle.
func (d driver) Swap(_ context.Context, _ ledger.Fence, writes []ledger.Write) ([]ledger.Found, error) {
	w := writes[0]
	next, v := w.Next.(*entry), w.Found.Version.(version)
	wait := v.on.needed
	if w.Gap {
		wait = 0
	}
	ok, have, err := d.write(v.on, field(next.Name), v.text, next.Encode(), w.Announce, wait)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ledger.ErrAgain
	case have < wait && !w.Announce && w.Failed == nil:
		return nil, ledger.As(ledger.ErrUncounted,
			fmt.Errorf("redis: %w: %d of %d have what was written", ErrUnconfirmed, have, wait))
	}
	return nil, nil
}

// attempts is how often Settle tries again because others have written meanwhile.
const attempts = 1000

// Settle implements ledger.Settler. After an error what an operator wrote stays: others may have read it.
func (d driver) Settle(ctx context.Context, name string, operator bool) (ledger.Found, error) {
	found, err := d.makeSafe(ctx, name)
	if err != nil && operator {
		err = fmt.Errorf("%w. It is recorded on the master all the same, and holds once that is over; "+
			"a fail-over before may undo it: see `katsubushi name show %s`", err, name)
	}
	return found, err
}

// makeSafe brings a record where a loss cannot take it, and records that it is there (R4). To write it
// again makes sure that this connection's WAIT is about it, whichever daemon wrote it.
func (d driver) makeSafe(ctx context.Context, name string) (found ledger.Found, err error) {
	for range attempts {
		all, err := d.Load(ctx, []string{name})
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return found, err
		}
		found = all[0]
		if err := cmp.Or(found.Closed, found.Fault); err != nil {
			return found, err
		}
		e, _ := found.Entry.(*entry)
		if e == nil || e.Safe {
			return found, nil
		}
		on := e.on
		if err := on.enough(); err != nil {
			return found, fmt.Errorf("%w: %w", line.ErrNotSafe, err)
		}
		old := found.Version.(version).text
		e.Token = rand.Text()
		touched := e.Encode()
		ok, have, err := d.write(on, field(name), old, touched, false, max(on.replicas, on.needed))
		if err != nil {
			return found, err
		}
		if !ok {
			continue
		}
		if err := d.safe(d.wire.Link, on, have); err != nil {
			return found, err
		}
		e.Safe, e.Token = true, rand.Text()
		if ok, _, err = d.write(on, field(name), touched, e.Encode(), false, 0); err != nil || ok {
			return found, err
		}
	}
	return found, fmt.Errorf("redis: sequence %s: others wrote %d times meanwhile", name, attempts)
}

// everything reads the whole hash: the records by name, and the notes.
func (d driver) everything() (all []ledger.Found, changes string, notes map[string]string, err error) {
	on, values, err := d.read()
	notes = map[string]string{}
	for i := 0; i+1 < len(values); i += 2 {
		key, text := values[i].text, values[i+1].text
		if name, isRecord := strings.CutPrefix(key, field("")); isRecord {
			all = append(all, d.found(name, version{on: on, text: text}))
		} else if key == "changes" {
			changes = text
		} else if strings.HasPrefix(key, daemonField) {
			notes[key] = text
		}
	}
	slices.SortFunc(all, func(a, b ledger.Found) int { return strings.Compare(a.Name, b.Name) })
	return all, changes, notes, err
}

// All implements ledger.Driver.
func (d driver) All(context.Context) ([]ledger.Found, error) {
	all, _, _, err := d.everything()
	return all, err
}

// Changes implements ledger.Driver.
func (d driver) Changes(context.Context) (string, error) {
	_, values, err := d.read("changes")
	if err != nil {
		return "", err
	}
	return "=" + values[0].text, nil
}
