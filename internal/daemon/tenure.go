package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A tenure is the time from when the store of the worker ids is opened until they are given back. A
// daemon has one, and another one only if it had given its worker ids up for a successor that could
// not take over.
type tenure struct {
	mu     sync.RWMutex // held to write the fields while the daemon runs, and by others to read them
	store  workerid.Backend
	keeper *workerid.Keeper
	stop   context.CancelFunc // nil = the keeper does not run
	ended  chan error         // its result
}

// theStore returns the store of the worker ids. Any goroutine may call it.
func (t *tenure) theStore() workerid.Backend {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.store
}

// theKeeper returns the keeper of the worker ids. Any goroutine may call it.
func (t *tenure) theKeeper() *workerid.Keeper {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.keeper
}

// openStore opens the store, unless another process still has it: takeOver does it then.
func (d *Daemon) openStore() error {
	if err := d.c.checkRecord(); err != nil {
		return err
	}
	if d.c.origin() != nil && !d.c.leased() {
		d.store = elsewhere{}
		return nil
	}
	store, err := d.openTheStore()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.store = store
	return nil
}

// begin keeps the worker ids until end.
func (t *tenure) begin() {
	ctx, stop := context.WithCancel(context.Background())
	ended, keeper := make(chan error, 1), t.keeper
	t.stop, t.ended = stop, ended
	go func() { ended <- keeper.Run(ctx) }()
}

// another opens the store and begins another tenure. The one before has ended.
func (d *Daemon) another() error {
	store, err := d.openTheStore()
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.store = store
	d.keeper = d.newKeeper()
	d.mu.Unlock()
	d.issuer.Carry(d.places)
	d.begin()
	return nil
}

// end seals the lanes and gives the worker ids back: from here on no id is issued, and the worker ids
// are free. It may be called again.
func (t *tenure) end() error {
	if t.stop == nil {
		return nil
	}
	t.stop()
	t.stop = nil
	return <-t.ended
}

// giveBack ends the tenure and closes its store.
func (t *tenure) giveBack() error {
	return errors.Join(t.end(), t.store.Close())
}

// elsewhere stands for the store of worker ids that another process has.
type elsewhere struct{}

var errElsewhere = fmt.Errorf("%w: the process that is to be succeeded has it", workerid.ErrNoID)

func (elsewhere) Acquire(context.Context, workerid.Request) (workerid.Grant, error) {
	return workerid.Grant{}, errElsewhere
}

func (elsewhere) Extend(context.Context, []workerid.Grant) ([]workerid.Result, error) {
	return nil, errElsewhere
}

func (elsewhere) Release(context.Context, workerid.Grant, int64) error { return workerid.ErrLost }
func (elsewhere) Figures(func(figure.Figure)) workerid.Condition       { return workerid.Condition{} }
func (elsewhere) Close() error                                         { return nil }
