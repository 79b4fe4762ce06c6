// Package names is the room of what is declared: the catalogue of names, what issues the ids of each, sequences over
// their store, and the election of those who issue sequences in strict order.
//
// The life of Names: New makes them, with no name declared. Open opens the store of sequences and declares what the
// settings and the store define. Start keeps sequences in values. Reachable says that the ports are open, from when
// this daemon may lead. HandOver lets others lead, Stop ends everything. Names are declared while the daemon runs, by
// Reload, by Create, and by what other daemons record; none ever goes away, and none changes its meaning: clients
// would take a snowflake for a number of the sequence that they asked for.
package names

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// Names are what a daemon has declared. Any goroutine may call the methods, but those of the life only one after the
// other.
type Names struct {
	// Catalog answers requests, by the names.
	Catalog *issuer.Catalog

	c         Config
	given     Given
	sequences sequences
	declaring sync.Mutex // taken by those who declare names while the daemon runs

	openStore    func() (stores.CounterStore, error)
	boot, moment func() int64 // see package clock
}

// New makes Names. c must be valid.
func New(c Config, g Given) *Names {
	settings := c.Counters
	settings.AnyDisk, settings.Log = g.AnyDisk, g.Log
	n := &Names{
		c: c, given: g, Catalog: issuer.NewCatalog(g.Now, g.Issuer, c.RefuseUnknown), openStore: settings.Open,
		boot: clock.Boot, moment: clock.Moment,
	}
	n.sequences.time.first = make(chan struct{})
	return n
}

// Open opens the store of sequences and declares all names that are defined, unless ctx ends before. After an error
// only Stop may be called.
func (n *Names) Open(ctx context.Context) error {
	if err := n.openCounters(ctx); err != nil {
		return err
	}
	all, flags, inFile := n.c.definitions(n.c.text, nil)
	if err := errors.Join(flags, inFile); err != nil {
		return err
	}
	return n.declare(ctx, all)
}

// Users returns the users in the store of sequences, or why it has none. Open has returned.
func (n *Names) Users() (users.Keys, error) {
	if n.sequences.later == nil {
		return nil, fmt.Errorf("users: %w", n.sequences.whyNot)
	}
	keys, ok := n.sequences.later.CounterStore.(users.Keys)
	if !ok {
		return nil, errors.New("the counter store keeps no users")
	}
	return keys, nil
}

// Start keeps sequences in values until Stop.
func (n *Names) Start() {
	if n.sequences.store != nil {
		n.sequences.keeper.Start()
		var ctx context.Context
		ctx, n.sequences.time.stop = context.WithCancel(context.Background())
		go n.keepTime(ctx)
	}
}

// Reachable says that the ports are open, and at which HOST:PORT the other daemons reach them; "" = nowhere.
func (n *Names) Reachable(address string) {
	if e := n.sequences.election; e != nil {
		e.opened(address)
	}
}

// HandOver lets other daemons lead those sequences that one daemon at a time issues. From then on this one forwards.
func (n *Names) HandOver() {
	if e := n.sequences.election; e != nil {
		e.handOver()
	}
}

// Stop stops all sequences for good. What they have not issued goes back to the store, so that no gap is left. None
// may ask for an id any more.
func (n *Names) Stop() {
	n.giveBackSequences()
	for _, g := range n.Catalog.Names() {
		closeKind(g.From)
	}
}

// Wake makes all clients ask again that wait for an id.
func (n *Names) Wake() {
	n.Catalog.Wake()
	n.given.Wake()
}

// Ready returns nil if ids are issued, or the reason why not.
func (n *Names) Ready() error {
	if err := n.Catalog.Ready(); err != nil {
		return err
	}
	if e := n.sequences.election; e != nil {
		return e.ready()
	}
	return nil
}

// Metrics emits the metrics of each name that their reader may know.
func (n *Names) Metrics(emit func(figure.Figure)) {
	n.Catalog.Metrics(n.given.Now(), n.given.Hidden, emit)
}

// Refused returns how many requests for values of sequences were refused.
func (n *Names) Refused() uint64 { return n.sequences.refused.Load() }

// Served returns the definition of a name; its Kind is empty if it is not declared.
func (n *Names) Served(name string) kinds.Definition { return n.served()[name] }

// Keeps reports whether a name stands for a sequence that is recorded.
func (n *Names) Keeps() bool {
	return slices.ContainsFunc(n.Catalog.Names(), func(g *issuer.Name) bool { return g.Definition.Recorded() })
}
