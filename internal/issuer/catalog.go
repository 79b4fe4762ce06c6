package issuer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// A Kind is a kind of id, with everything that issues it. It is comparable; several names may stand
// for one Kind. Any goroutine may call its methods.
type Kind interface {
	// Source returns the source for an event loop; loops are counted from 0. A loop calls this once
	// and keeps the result. Batch calls it for loop 0 each time.
	Source(loop int) id.Source
	// Ready returns nil if an id would be issued at now, Unix ms, or else the refusal that a client
	// would get.
	Ready(now int64) error
}

// A Reporter is a Kind that stands for one name, and has figures of its own. Its sources are used as
// they are; sources of other Kinds are wrapped, to count what they issue.
type Reporter interface {
	Kind
	Issued() uint64  // since the start; only grows
	Refused() uint64 // requests that got an error, since the start
	// Figures emits its figures, always the same in the same order, and returns what the status page
	// judges it by. They are of one name: their metrics need labels.
	Figures(emit func(figure.Figure)) Condition
}

// A Condition is what the status page shows of a sequence.
type Condition struct {
	Order      string // free or strict
	Leader     string // of strict order: an address, "this daemon" or "none"
	Last, Left int64
	DaysLeft   float64 // a second at least; 0 = this daemon does not know

	// Of timestamps that this daemon leads: the largest id that may be issued without another write, and how far the last
	// one is ahead of the clock.
	Hi       uint64
	Distance time.Duration
}

const lastStat, leftStat, hiStat = "last", "left", "hi"

// TellsIDs reports whether a reader can tell an id by the figure of this name, alone or with others: the last
// value of a sequence, or how many are left, of which values at hand are not a part.
func TellsIDs(stat string) bool { return stat == lastStat || stat == leftStat || stat == hiStat }

// A Catalog maps keys to kinds of id. Every grammar on every port uses it, and HTTP. Names are only ever
// added, and readers take no lock: they load a table that never changes.
type Catalog struct {
	now    func() int64
	others Kind  // for all keys that are not declared
	refuse bool  // keys that are neither declared nor reserved; guarded by declare
	unsure error // why such a key may be a name all the same; the same
	bell   Bell

	names    atomic.Pointer[names]
	declare  sync.Mutex // held while names are added, and while a Handler is made
	handlers []*Handler
}

// A Name is a declared name and what issues its ids.
type Name struct {
	kinds.Definition
	From   Kind          // what issues the ids
	Took   latency.Track // by its answers on the ports of the engine
	number int           // in the order of declaration
	apart  counted       // what Batch does; it has no source

	mu    sync.Mutex
	loops []*counted // one of each Handler; none for a Reporter
}

// Issued returns how many ids were issued under this name since the start.
func (g *Name) Issued() uint64 {
	if r, ok := g.From.(Reporter); ok {
		return r.Issued()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.apart.n.Load()
	for _, c := range g.loops {
		n += c.n.Load()
	}
	return n
}

// Refused returns how many requests for this name got an error since the start.
func (g *Name) Refused() uint64 {
	if r, ok := g.From.(Reporter); ok {
		return r.Refused()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.apart.refused.Load()
	for _, c := range g.loops {
		n += c.refused.Load()
	}
	return n
}

// NewCatalog makes a Catalog without names: every key stands for others. With refuse, only declared and
// reserved keys (see kinds.Reserved) get ids. now is the id clock.
func NewCatalog(now func() int64, others Kind, refuse bool) *Catalog {
	c := &Catalog{now: now, others: others, refuse: refuse}
	c.names.Store(newNames(nil, refuse, nil))
	return c
}

// A Declared is a definition with the Kind that was made from it.
type Declared struct {
	kinds.Definition
	From Kind
}

// Declare adds names. Sessions see all of them at once. One that is declared already is replaced, Reporter by
// Reporter: that is for a name that has issued nothing, and has made no session wait.
func (c *Catalog) Declare(list []Declared) {
	c.declare.Lock()
	defer c.declare.Unlock()
	old := c.names.Load()
	all := slices.Clone(old.list)
	for _, d := range list {
		g := &Name{Definition: d.Definition, From: d.From, number: len(all)}
		if before := old.find([]byte(d.Name)); before != nil {
			g.number = before.number
			all[g.number] = g
			for _, h := range c.handlers {
				h.replace(g)
			}
			continue
		}
		all = append(all, g)
	}
	c.publish(all, len(old.list))
}

// RefuseUnknown sets whether keys that are neither declared nor reserved get no ids. unsure, if it is not nil, is
// what their clients are told instead of an UnknownName: why the daemon does not know yet whether they are names.
func (c *Catalog) RefuseUnknown(refuse bool, unsure error) {
	c.declare.Lock()
	defer c.declare.Unlock()
	c.refuse, c.unsure = refuse || unsure != nil, unsure
	all := c.names.Load().list
	c.publish(all, len(all))
}

// Unsure returns why the daemon does not know which keys are names, or nil.
func (c *Catalog) Unsure() error { return c.names.Load().unsure }

// publish makes a table of all names, of which the first known ones have their sources already, and
// gives it to the loops. A table holds the sources of a name before any loop can find the name.
func (c *Catalog) publish(all []*Name, known int) {
	n := newNames(all, c.refuse, c.unsure)
	for _, h := range c.handlers {
		h.add(all[known:])
	}
	c.names.Store(n)
	for _, h := range c.handlers {
		h.names.Store(n.orNil())
	}
}

// Names returns the declared names in the order of their declaration. The caller must not change
// the slice.
func (c *Catalog) Names() []*Name { return c.names.Load().list }

// Declares reports whether a key is a declared name, as far as that is known.
func (c *Catalog) Declares(key []byte) bool {
	n := c.names.Load()
	return n.find(key) != nil || n.unsure != nil
}

// Ready returns nil if ids of the default kind would be issued, or else a refusal. A name that
// cannot issue does not count: the daemon would have to be taken out of service for one name.
func (c *Catalog) Ready() error { return c.others.Ready(c.now()) }

// Patience is how long a Batch waits at most before it asks a source again that has said ErrWait.
const Patience = 50 * time.Millisecond

// Batch issues n ids for a key, all or none; n must be at least 1. An empty key stands for the default
// kind. More than one id is bulk. If the source has none at this moment (id.ErrWait), Batch waits until
// Wake is called, or for Patience, and asks again; how often is the source's decision. The error is the
// source's, or that of ctx.
func (c *Catalog) Batch(ctx context.Context, key []byte, n int) (runs []id.Run, err error) {
	s, count := c.batchSource(key)
	var moment int64 // of this request, see id.Punctual; 0 = the source needs none
	for left := n; left > 0; {
		rung := c.bell.Next() // before the source is asked: no Wake may be missed
		run, err := s.Mint(id.When{Now: c.now(), Moment: moment}, left, n > 1)
		if err == id.ErrMoment {
			moment = s.(id.Punctual).Moment()
			run, err = s.Mint(id.When{Now: c.now(), Moment: moment}, left, n > 1)
		}
		if errors.Is(err, id.ErrWait) {
			if err = wait(ctx, rung); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			if count != nil {
				count.refused.Add(1)
			}
			return nil, err
		}
		runs = append(runs, run)
		left -= run.N
	}
	if count != nil {
		count.n.Add(uint64(n))
	}
	return runs, nil
}

// batchSource returns the source for a key, and where to count its ids if that is Batch's duty.
func (c *Catalog) batchSource(key []byte) (id.Source, *counted) {
	names := c.names.Load()
	if g := names.find(key); g != nil {
		if _, ok := g.From.(Reporter); ok {
			return g.From.Source(0), nil
		}
		return g.From.Source(0), &g.apart
	}
	if len(key) > 0 && names.refuses(key) {
		return names.stranger(key), nil
	}
	return c.others.Source(0), nil
}

func wait(ctx context.Context, rung <-chan struct{}) error {
	again := time.NewTimer(Patience)
	defer again.Stop()
	select {
	case <-rung:
	case <-again.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// AwaitWhile waits until Wake is called, or for Patience, unless waiting() is false already. It returns
// whether it waited.
func (c *Catalog) AwaitWhile(waiting func() bool) bool {
	rung := c.bell.Next() // before it looks: no Wake may be missed
	return waiting() && wait(context.Background(), rung) == nil
}

// Wake makes all waiting Batches ask their sources again. Any goroutine may call it.
func (c *Catalog) Wake() { c.bell.Ring() }

// A Bell wakes all goroutines that wait for it. Any goroutine may use it.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // nil while none waits
}

// Next returns a channel that the next Ring closes.
func (b *Bell) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Ring wakes those who wait.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
