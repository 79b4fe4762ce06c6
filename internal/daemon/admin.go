package daemon

import (
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// recordedSequences returns the store of sequences, or the error of having none.
func (d *Daemon) recordedSequences() (counter.Admin, error) {
	if d.sequences.store == nil {
		return nil, stores.Conflict{Err: d.sequences.whyNot}
	}
	return d.sequences.store, nil
}

// elector returns the store in which leaders are elected, or the error of having none.
func (d *Daemon) elector() (stores.Elector, error) {
	if d.sequences.election == nil {
		return nil, stores.ErrNoElection
	}
	return d.sequences.election.store, nil
}

// createSequence records a sequence and serves it. created is false if it was recorded already.
func (d *Daemon) createSequence(ctx context.Context, def kinds.Definition) (r counter.Record, created bool, err error) {
	s, err := d.recordedSequences()
	if err != nil {
		return r, false, err
	}
	served := d.served()
	if err := hasRoom(served, def); err != nil {
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
	d.declaring.Lock()
	defer d.declaring.Unlock()
	return r, created, d.declareRecorded([]counter.Record{r})
}
