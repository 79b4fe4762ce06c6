package etcd

import (
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// Within returns the Store for sequences with order=strict of the Term's group: each write compares the
// group's key, so nothing is granted or given back once the Term is over. That is
// counter.ErrDeposed, and the Runner reads the keys again. Close does nothing.
func (s *Store) Within(t leader.Term) counter.Store {
	return s.Ledger.Within(&within{Store: s, term: t})
}

type within struct {
	*Store
	term leader.Term
	over atomic.Bool // etcd has said so
}

// Check implements ledger.Fence.
func (w *within) Check(name string) error {
	switch g := leader.GroupOf(name); {
	case g != w.term.Group%leader.Groups:
		return fmt.Errorf("%w: sequence %s is of group %d, and the term of group %d", counter.ErrDeposed, name, g,
			w.term.Group)
	case w.over.Load():
		return w.deposed()
	}
	return nil
}

func (w *within) deposed() error {
	return fmt.Errorf("%w: %s was written since", counter.ErrDeposed, w.leaderKey(w.term.Group))
}

// compare is the fence, and read what a refused transaction is asked for.
func (w *within) compare() etcdlink.Cmp {
	return etcdlink.RevisionIs(w.leaderKey(w.term.Group), w.term.Fence)
}
func (w *within) read() etcdlink.Op { return etcdlink.Get(w.leaderKey(w.term.Group)) }

// judge says whether a transaction was refused by the fence, of what it read.
func (w *within) judge(found []etcdlink.Pair) error {
	for _, kv := range found {
		if kv.Revision == w.term.Fence {
			return nil
		}
	}
	w.over.Store(true)
	if hint := w.hint.Load(); hint != nil {
		(*hint)(nil)
	}
	return w.deposed()
}

// Admit implements ledger.Admitter: sequences with order=strict are written only within a Term, and in the cluster
// that the daemon began with, because a restored copy has the same fence.
func (d driver) Admit(fence ledger.Fence, found ledger.Found) error {
	if fence != nil {
		if err := d.began(found.Version.(version).cluster); err != nil {
			return fmt.Errorf("%w: %w", counter.ErrForeign, err)
		}
	}
	r := found.Entry.Plain()
	switch term, _ := fence.(*within); {
	case r.Strict && term == nil:
		return fmt.Errorf("%w outside of a term of leadership", counter.ErrOrder)
	case !r.Strict && term != nil:
		return fmt.Errorf("sequence %s has order=free, and is not written within a term of leadership", found.Name)
	case r.Strict && r.Timed() != leader.Timed(term.term.Group):
		return fmt.Errorf("%w: sequence %s is not of group %d", counter.ErrDeposed, found.Name, term.term.Group)
	}
	return nil
}
