package memcounter

import (
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
)

// Writes returns how many writes there were.
func (d *Database) Writes() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

// SetBack puts an old record in place of the present one, as who restores a backup does.
func (d *Database) SetBack(r counter.Record) { d.Put(&ledger.Basic{Record: r}) }

// Put is SetBack for any kind of Entry.
func (d *Database) Put(e ledger.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[e.Plain().Name] = ledger.Found{Name: e.Plain().Name, Entry: e, Version: e.Plain().Token}
}

// Forget deletes a record, as who wipes the store does.
func (d *Database) Forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.records, name)
}

// Damage makes a record one that cannot be read.
func (d *Database) Damage(name string) {
	d.Spoil(name, counter.Damaged(name, "sequence "+name, errors.New("nonsense")))
}

// Spoil is Damage for any reason.
func (d *Database) Spoil(name string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[name] = ledger.Found{Name: name, Fault: why, Version: "damaged"}
	d.changes++
}

// Behind implements counter.Admin.
func (s Store) Behind(context.Context) ([]counter.Daemon, error) { return s.DB.Late, s.DB.LateErr }

// NotPromised implements counter.Lossy.
func (s Store) NotPromised(context.Context) (string, error) { return s.DB.Undone, nil }
