package daemon

import (
	"context"
	"errors"
	"net/http"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/adminapi"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// adminConnections is the connection limit of the admin port.
const adminConnections = 16

// adminDescriptors returns how many files the admin port's connections may hold open, including some
// above its limit.
func adminDescriptors(int) int { return adminConnections + httpapi.Reserve + httpapi.Refusing }

// newAdmin makes the service of the admin port.
func (d *Daemon) newAdmin() service {
	return httpService{httpapi.Limited(adminapi.New(d.adminConfig()), adminConnections, &d.administered, d.complaints())}
}

func (d *Daemon) adminConfig() adminapi.Config {
	return adminapi.Config{
		Login: func(w http.ResponseWriter, r *http.Request) *users.Account {
			return httpapi.Login(d.front.Login()).Admit(w, r, &d.administered)
		},
		Sequences: d.recordedSequences, Counters: d.c.Counters, Create: d.createSequence,
		Served: func(name string) kinds.Definition { return d.served()[name] }, Elector: d.elector,
		Users: d.front.Users, Log: d.c.Log,
	}
}

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
