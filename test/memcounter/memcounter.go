// Package memcounter is a store of sequences in memory, for tests and simulations: the smallest ledger.Driver.
// Stores of several daemons may share one Database.
//
// The guarantee: that of counter.Store. Not promised: that anything outlives the process.
package memcounter

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
)

// A Database holds the records.
type Database struct {
	mu      sync.Mutex
	records map[string]ledger.Found // whose Version is a token
	writes  uint64                  // makes the tokens
	changes uint64                  // by Define, Raise, Revive and Retire

	Late    []counter.Daemon // what Behind returns,
	LateErr error            // and its error
	Undone  string           // what NotPromised returns
}

// NewDatabase makes an empty Database.
func NewDatabase() *Database { return &Database{records: map[string]ledger.Found{}} }

// A Store is a daemon's or an operator's access to a Database. It implements counter.Store and
// counter.Admin.
type Store struct {
	*ledger.Ledger
	DB *Database
}

// Open makes a Store.
func (d *Database) Open() Store { return Store{ledger.New(d.Driver(), ledger.Traits{}, nil), d} }

// Driver is what a Store's Ledger has.
func (d *Database) Driver() ledger.Driver { return driver{d} }

type driver struct{ *Database }

func (d driver) Do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

func (d driver) NoAnswer(_ string, cause error) error      { return cause }
func (d driver) At(name string) string                     { return name }
func (d driver) Check(definition counter.Definition) error { return definition.Check() }
func (d driver) Close() error                              { return nil }

func (d driver) New(_ ledger.Found, def counter.Definition, token string) (ledger.Entry, error) {
	return &ledger.Basic{Record: counter.NewRecord(def, token)}, nil
}

func (d driver) Load(_ context.Context, names []string) (found []ledger.Found, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		found = append(found, d.records[name])
	}
	return found, nil
}

func (d driver) Swap(_ context.Context, _ ledger.Fence, writes []ledger.Write) (now []ledger.Found, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range writes {
		if d.records[w.Next.Plain().Name].Version != w.Found.Version {
			return nil, ledger.ErrAgain
		}
	}
	for _, w := range writes {
		name := w.Next.Plain().Name
		d.writes++
		if w.Announce {
			d.changes++
		}
		d.records[name] = ledger.Found{Name: name, Entry: w.Next, Version: w.Next.Plain().Token}
		now = append(now, d.records[name])
	}
	return now, nil
}

func (d driver) All(context.Context) (all []ledger.Found, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.records)) {
		all = append(all, d.records[name])
	}
	return all, nil
}

func (d driver) Changes(context.Context) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return "change " + strconv.FormatUint(d.changes, 10), nil
}
