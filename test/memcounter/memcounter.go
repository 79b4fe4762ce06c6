// Package memcounter is a store of sequences in memory, for tests and simulations. Stores of several
// daemons may share one Database.
//
// The guarantee: that of counter.Store. Not promised: that anything outlives the process.
package memcounter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// A Database holds the records.
type Database struct {
	mu      sync.Mutex
	records map[string]counter.Record
	writes  uint64 // makes the tokens
	changes uint64 // by Define, Raise and Retire

	Late    []counter.Daemon // what Behind returns,
	LateErr error            // and its error
	Undone  string           // what NotPromised returns
}

// NewDatabase makes an empty Database.
func NewDatabase() *Database { return &Database{records: map[string]counter.Record{}} }

// Writes returns how many writes there were.
func (d *Database) Writes() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

// SetBack puts an old record in place of the present one, as who restores a backup does.
func (d *Database) SetBack(r counter.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[r.Name] = r
}

// A Store is a daemon's or an operator's access to a Database. It implements counter.Store and
// counter.Admin.
type Store struct{ DB *Database }

// write changes a record. change returns an error if it changed nothing.
func (s Store) write(ctx context.Context, name string, change func(r *counter.Record, token string) error) error {
	s.DB.mu.Lock()
	defer s.DB.mu.Unlock()
	r, ok := s.DB.records[name]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !ok:
		return counter.ErrUnknown
	case r.Fault != nil:
		return r.Fault
	}
	if err := change(&r, strconv.FormatUint(s.DB.writes, 10)); err != nil {
		return err
	}
	s.DB.writes++
	s.DB.records[name] = r
	return nil
}

// Define implements counter.Store.
func (s Store) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	s.DB.mu.Lock()
	defer s.DB.mu.Unlock()
	if r, ok := s.DB.records[d.Name]; ok || ctx.Err() != nil {
		return r, cmp.Or(ctx.Err(), r.Fault)
	}
	if err := d.Check(); err != nil {
		return counter.Record{}, err
	}
	r := counter.NewRecord(d, strconv.FormatUint(s.DB.writes, 10))
	s.DB.writes++
	s.DB.changes++
	s.DB.records[d.Name] = r
	return r, nil
}

// Reserve implements counter.Store.
func (s Store) Reserve(ctx context.Context, name string, n uint64) (b counter.Block, err error) {
	err = s.write(ctx, name, func(r *counter.Record, token string) error {
		b, err = r.Reserve(n, token)
		return err
	})
	return b, err
}

// Return implements counter.Store.
func (s Store) Return(ctx context.Context, name string, b counter.Block, next uint64) error {
	return s.write(ctx, name, func(r *counter.Record, token string) error { return r.Return(b, next, token) })
}

// Raise implements counter.Admin.
func (s Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.change(ctx, name, func(r *counter.Record, token string) error { return r.Raise(atLeast, token) })
}

// Damage makes a record one that cannot be read.
func (d *Database) Damage(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[name] = counter.Unread(name, counter.Damaged(name, "sequence "+name, errors.New("nonsense")))
	d.changes++
}

// Revive implements counter.Admin.
func (s Store) Revive(ctx context.Context, def counter.Definition, atLeast uint64) (counter.Record, error) {
	s.DB.mu.Lock()
	defer s.DB.mu.Unlock()
	switch old, ok := s.DB.records[def.Name]; {
	case ctx.Err() != nil:
		return old, ctx.Err()
	case !ok:
		return old, counter.ErrUnknown
	case old.Readable():
		return old, counter.Whole(def.Name)
	}
	s.DB.writes++
	r, err := counter.Revived(def, atLeast, fmt.Sprint("token ", s.DB.writes))
	if err == nil {
		s.DB.records[def.Name] = r
		s.DB.changes++
	}
	return r, err
}

// Retire implements counter.Admin.
func (s Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	return s.change(ctx, name, func(r *counter.Record, token string) error {
		r.Retire(token)
		return nil
	})
}

// change is write for what Changes tells.
func (s Store) change(ctx context.Context, name string,
	change func(r *counter.Record, token string) error) (after counter.Record, err error) {
	err = s.write(ctx, name, func(r *counter.Record, token string) error {
		err := change(r, token)
		if after = *r; err == nil {
			s.DB.changes++
		}
		return err
	})
	return after, err
}

// Behind implements counter.Admin.
func (s Store) Behind(context.Context) ([]counter.Daemon, error) { return s.DB.Late, s.DB.LateErr }

// NotPromised implements counter.Lossy.
func (s Store) NotPromised(context.Context) (string, error) { return s.DB.Undone, nil }

// Changes implements counter.Store.
func (s Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	s.DB.mu.Lock()
	defer s.DB.mu.Unlock()
	if now = fmt.Sprint("change ", s.DB.changes); now != since {
		records = s.DB.list()
	}
	return now, records, ctx.Err()
}

// List implements counter.Admin.
func (s Store) List(ctx context.Context) ([]counter.Record, error) {
	s.DB.mu.Lock()
	defer s.DB.mu.Unlock()
	return s.DB.list(), ctx.Err()
}

func (d *Database) list() []counter.Record {
	return slices.SortedFunc(maps.Values(d.records), func(a, b counter.Record) int { return cmp.Compare(a.Name, b.Name) })
}

// Show implements counter.Admin.
func (s Store) Show(ctx context.Context, name string) (counter.Record, error) {
	s.DB.mu.Lock()
	defer s.DB.mu.Unlock()
	r, ok := s.DB.records[name]
	if !ok {
		return r, counter.ErrUnknown
	}
	return r, cmp.Or(ctx.Err(), r.Fault)
}

// Close implements counter.Store.
func (s Store) Close() error { return nil }
