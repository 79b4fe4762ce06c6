package names

import (
	"cmp"
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// Sequences returns the store of sequences, or the error of having none.
func (n *Names) Sequences() (counter.Admin, error) {
	if n.sequences.store == nil {
		return nil, stores.Conflict{Err: n.sequences.whyNot}
	}
	return n.sequences.store, nil
}

// Elector returns the store in which leaders are elected, or the error of having none.
func (n *Names) Elector() (stores.Elector, error) {
	if n.sequences.election == nil {
		return nil, stores.ErrNoElection
	}
	return n.sequences.election.store, nil
}

// Create records a sequence and serves it. created is false if it was recorded already.
func (n *Names) Create(ctx context.Context, def kinds.Definition) (r counter.Record, created bool, err error) {
	s, err := n.Sequences()
	if err != nil {
		return r, false, err
	}
	served := n.served()
	if err := cmp.Or(hasRoom(served, def), n.c.checkNode(def)); err != nil {
		return r, false, stores.Conflict{Err: err}
	}
	if other, ok := served[def.Name]; ok && other.Step != 0 { // it may be one that is not recorded yet
		if err := kinds.Compare(def, counter.Record{Definition: other.Definition}); err != nil {
			return r, false, err
		}
	}
	_, err = s.Show(ctx, def.Name)
	if created = errors.Is(err, counter.ErrUnknown); created || err == nil {
		r, err = stores.Create(ctx, s, def)
	}
	if err != nil {
		return r, false, err
	}
	n.declaring.Lock()
	defer n.declaring.Unlock()
	return r, created, n.declareRecorded([]counter.Record{r})
}
