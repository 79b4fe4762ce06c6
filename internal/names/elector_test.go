package names

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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
	err      error // what every call about leaders returns; nil = it works
	demands  map[int]leader.Demand
	others   []leader.NodeKey // other daemons, which write their time of day each time that a room does
	ahead    time.Duration    // their clocks' of the rooms'
}

func newBoard() *board {
	return &board{db: memcounter.NewDatabase(), demands: map[int]leader.Demand{}}
}

// An elector is a room's access to a board. It implements stores.Elector.
type elector struct {
	memcounter.Store
	*board
}

// change lets a test change a board, or look at it.
func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// fail makes every call about leaders fail.
func (b *board) fail(err error) { b.change(func() { b.err = err }) }

func (b *board) Commit(_ context.Context, c leader.Change) (bool, leader.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return false, leader.State{}, b.err
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
	return b.err
}

func (b *board) Left(context.Context) (list []leader.Demand, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.demands {
		list = append(list, d)
	}
	return list, b.err
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

// bubble runs a test on a clock of its own, from a day on at which layouts have ids.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		f(t)
	})
}

// after lets time pass, and what is due happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// room opens a room that elects leaders on the board. It is in a bubble.
func (b *board) room(t *testing.T, c Config, change ...func(*Names)) *Names {
	t.Helper()
	began := time.Now()
	c.Counters = stores.Counters{URL: "etcd://127.0.0.1:1"} // which nobody opens
	return room(t, c, append([]func(*Names){func(n *Names) {
		n.openStore = func() (stores.CounterStore, error) { return elector{b.db.Open(), b}, nil }
		n.boot = func() int64 { return int64(time.Since(began)) + 1 }
		n.moment = n.boot
	}}, change...)...)
}

// Two addresses of daemons that nobody reaches.
const here, there = "127.0.0.1:1", "127.0.0.2:1"

// lead opens a room that leads all groups, and one that follows it.
func (b *board) lead(t *testing.T, c Config, change ...func(*Names)) (leads, follows *Names) {
	t.Helper()
	leads = b.room(t, c, change...)
	leads.Reachable(here)
	after(10 * time.Second)
	follows = b.room(t, c, change...)
	follows.Reachable(there)
	after(3 * time.Second)
	for n, want := range map[*Names]int{leads: leader.Groups, follows: 0} {
		if got, elects := n.Leads(); !elects || got != want {
			t.Fatalf("it leads %d groups, %v, want %d", got, elects, want)
		}
	}
	return leads, follows
}

var errDown = errors.New("etcd does not answer")
