package leader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// A board is a Board in memory.
type board struct {
	mu       sync.Mutex
	revision int64
	leaders  [MaxGroups]Leader
	nodes    map[string]NodeKey
	watchers map[context.Context]func(map[int]Leader)
	down     error // what every Commit returns; nil = it works
	deaf     bool  // Watch tells nothing
	log      []Change
}

func newBoard() *board {
	return &board{revision: 100, nodes: map[string]NodeKey{}, watchers: map[context.Context]func(map[int]Leader){}}
}

func (b *board) state() State {
	s := State{Leaders: b.leaders}
	for _, id := range slices.Sorted(maps.Keys(b.nodes)) {
		s.Nodes = append(s.Nodes, b.nodes[id])
	}
	return s
}

func (b *board) commit(c Change) (bool, State) {
	b.log = append(b.log, c)
	for g, r := range c.Leaders {
		if b.leaders[g].Revision != r {
			return false, b.state()
		}
	}
	for id, r := range c.Nodes {
		if b.nodes[id].Revision != r {
			return false, b.state()
		}
	}
	b.revision++
	for g, l := range c.Lead {
		l.Revision = b.revision
		b.leaders[g] = l
	}
	for _, id := range c.Drop {
		delete(b.nodes, id)
	}
	if c.Put != nil {
		b.nodes[c.Put.ID] = NodeKey{Node: *c.Put, Revision: b.revision, Stamp: c.Stamp}
	}
	return true, b.state()
}

// fail makes Commit fail, or work again.
func (b *board) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = err
}

// Commit implements Board.
func (b *board) Commit(ctx context.Context, c Change) (bool, State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(b.down, ctx.Err()); err != nil {
		return false, State{}, err
	}
	done, s := b.commit(c)
	if done && len(c.Lead) > 0 && !b.deaf {
		written := map[int]Leader{}
		for g := range c.Lead {
			written[g] = s.Leaders[g]
		}
		for _, changed := range b.watchers {
			changed(written)
		}
	}
	return done, s, nil
}

// Watch implements Board.
func (b *board) Watch(ctx context.Context, changed func(map[int]Leader)) error {
	b.mu.Lock()
	b.watchers[ctx] = changed
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, ctx)
	return ctx.Err()
}
