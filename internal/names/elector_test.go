package names

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

// A board is where the rooms of a test elect leaders, as etcd is for daemons, and the records beside it.
type board struct {
	db *memcounter.Database

	mu sync.Mutex
	leader.State
	revision int64
	errs     map[string]error // what calls return, "leaders" those about leaders; nil = they work
	asked    map[string]int   // how often
	demands  map[int]leader.Demand
	others   []leader.NodeKey // other daemons, which write their time of day each time that a room does
	ahead    time.Duration    // their clocks' of the rooms'
}

func newBoard() *board {
	return &board{
		db: memcounter.NewDatabase(), demands: map[int]leader.Demand{}, errs: map[string]error{}, asked: map[string]int{},
	}
}

// A faulty store is a room's access to the records. It implements stores.CounterStore.
type faulty struct {
	memcounter.Store
	at *board
}

// An elector is one to the leaders too. It implements stores.Elector.
type elector struct {
	faulty
	*board
}

// fault counts a call, and returns its error.
func (b *board) fault(call string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[call]++
	return b.errs[call]
}

func (s faulty) List(ctx context.Context) ([]counter.Record, error) {
	all, err := s.Store.List(ctx)
	return all, cmp.Or(s.at.fault("List"), err)
}

func (s faulty) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if err := s.at.fault("Define"); err != nil {
		return counter.Record{}, err
	}
	return s.Store.Define(ctx, d)
}

func (s faulty) Changes(ctx context.Context, since string) (string, []counter.Record, error) {
	if err := s.at.fault("Changes"); err != nil {
		return since, nil, err
	}
	return s.Store.Changes(ctx, since)
}

func (s faulty) Close() error { return s.at.fault("Close") }

// change lets a test change a board, or look at it.
func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *board) Commit(_ context.Context, c leader.Change) (bool, leader.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.errs["leaders"]; err != nil {
		return false, leader.State{}, err
	}
	done := true
	for g, r := range c.Leaders {
		done = done && b.Leaders[g].Revision == r
	}
	for id, r := range c.Nodes {
		done = done && b.Node(id).Revision == r
	}
	if done {
		b.revision++
		for g, l := range c.Lead {
			l.Revision = b.revision
			b.Leaders[g] = l
		}
		for _, id := range c.Drop {
			b.put(leader.NodeKey{Node: leader.Node{ID: id}})
		}
		if c.Put != nil {
			b.put(leader.NodeKey{Node: *c.Put, Revision: b.revision, Stamp: c.Stamp})
			for _, o := range b.others {
				o.Revision, o.Stamp = b.revision, time.Now().Add(b.ahead).UnixMilli()
				b.put(o)
			}
		}
	}
	return done, b.State, nil
}

// put writes the key of a daemon, or deletes it if it has no revision. Earlier states keep theirs.
func (b *board) put(n leader.NodeKey) {
	b.Nodes = slices.DeleteFunc(slices.Clone(b.Nodes), func(o leader.NodeKey) bool { return o.ID == n.ID })
	if n.Revision > 0 {
		b.Nodes = append(b.Nodes, n)
	}
	slices.SortFunc(b.Nodes, func(a, b leader.NodeKey) int { return cmp.Compare(a.ID, b.ID) })
}

func (b *board) Watch(ctx context.Context, _ func(map[int]leader.Leader)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (b *board) Leave(_ context.Context, list ...leader.Demand) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range list {
		b.demands[d.Group] = d
	}
	return b.errs["leaders"]
}

func (b *board) Left(context.Context) (list []leader.Demand, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.demands {
		list = append(list, d)
	}
	return list, b.errs["leaders"]
}

// Within implements stores.Elector.
func (e elector) Within(t leader.Term) counter.Store { return e.Store.Within(fence{e.board, t}) }

type fence struct {
	b    *board
	term leader.Term
}

func (f fence) Check(string) error {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if f.b.Leaders[f.term.Group].Revision != f.term.Fence {
		return counter.ErrDeposed
	}
	return nil
}

// serve makes a board the store of a room, and a bubble's time its clock.
func (b *board) serve(n *Names, elects bool) {
	began := time.Now()
	n.boot = func() int64 { return int64(time.Since(began)) + 1 }
	n.moment = n.boot
	n.openStore = func() (s stores.CounterStore, err error) {
		f := faulty{b.db.Open(), b}
		if s = f; elects {
			s = elector{f, b}
		}
		return s, b.fault("Open")
	}
}
