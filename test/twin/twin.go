// Package twin makes copies of a program that leases worker ids, as a snapshot of its machine that goes on twice would:
// the copy remembers of the store what the program did, holds what it held, and has a connection of its own.
package twin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/internal/turns"
	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// An Original is a program's side of a pool.
type Original struct {
	pool workerid.Provider

	extended atomic.Uint64 // extensions that were answered

	calls  sync.Mutex // held during each, so that a copy is not made in the middle of one
	leases workerid.Leases
	store  workerid.Backend
	held   []workerid.Grant
}

// New makes what a program opens as its Provider.
func New(pool workerid.Provider) *Original { return &Original{pool: pool} }

// Provider is for the program.
func (o *Original) Provider() workerid.Provider {
	return workerid.Provider{Lease: func(terms workerid.Terms) workerid.Leases {
		return leases{o.pool.Lease(terms), o}
	}}
}

// Extended is how many of the program's extensions the store has answered.
func (o *Original) Extended() uint64 { return o.extended.Load() }

type leases struct {
	workerid.Leases
	o *Original
}

func (l leases) Open() (workerid.Backend, error) {
	store, err := l.Leases.Open()
	if err != nil {
		return nil, err
	}
	l.o.calls.Lock()
	defer l.o.calls.Unlock()
	l.o.leases, l.o.store = l.Leases, store
	return backend{store, l.o}, nil
}

// A backend notes what the program holds.
type backend struct {
	workerid.Backend
	o *Original
}

func (b backend) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	b.o.calls.Lock()
	defer b.o.calls.Unlock()
	g, err := b.Backend.Acquire(ctx, want)
	if err == nil {
		b.o.held = append(b.o.held, g)
	}
	return g, err
}

func (b backend) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	b.o.calls.Lock()
	defer b.o.calls.Unlock()
	results, err := b.Backend.Extend(ctx, held)
	if b.o.held = After(held, results); err == nil {
		b.o.extended.Add(1)
	}
	return results, err
}

func (b backend) Release(ctx context.Context, g workerid.Grant, last int64) error {
	b.o.calls.Lock()
	defer b.o.calls.Unlock()
	b.o.held = slices.DeleteFunc(b.o.held, func(h workerid.Grant) bool { return h.Worker == g.Worker })
	return b.Backend.Release(ctx, g, last)
}

// After is what is held after an extension. What is lost for good is not.
func After(held []workerid.Grant, results []workerid.Result) (now []workerid.Grant) {
	for i, g := range held {
		switch {
		case i >= len(results):
		case results[i].Err == nil:
			g.Hi = results[i].Grant.Hi
		case errors.Is(results[i].Err, workerid.ErrLost) || errors.Is(results[i].Err, workerid.ErrShared):
			continue
		}
		now = append(now, g)
	}
	return now
}

// A Copy is the copy's side of the pool.
type Copy struct {
	workerid.Backend
	Held []workerid.Grant
}

// Copy makes a copy, and calls do with it before the program asks the store again. The caller closes the copy. An error
// of Copy's own says that there was nothing to copy at this moment.
func (o *Original) Copy(do func(c *Copy) error) error {
	o.calls.Lock()
	defer o.calls.Unlock()
	if len(o.held) == 0 {
		return errors.New("the program holds nothing")
	}
	other, err := o.leases.Open()
	if err != nil {
		return err
	}
	if err := remember(other, o.store); err != nil {
		return errors.Join(err, other.Close())
	}
	return do(&Copy{other, slices.Clone(o.held)})
}

// remember makes a client remember what another one does. It does not wait for one that is at work.
func remember(client, other workerid.Backend) error {
	for _, store := range []workerid.Backend{client, other} {
		turn, err := turnOf(store)
		if err != nil {
			return err
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		default:
			return errors.New("the program is talking to the store")
		}
	}
	if _, ok := other.(*redis.Store); ok {
		*copied.Field[script.Memory](client, "memory") = *copied.Of(copied.Field[script.Memory](other, "memory"))
		return nil
	}
	session, own := copied.Of(copied.Field[cas.Session](other, "session")), copied.Field[cas.Session](client, "session")
	session.Driver, session.Announced = own.Driver, own.Announced
	*own = *session
	return nil
}

// turnOf is what the calls of a client take in turn.
func turnOf(store workerid.Backend) (turns.Turn, error) {
	switch store.(type) {
	case *redis.Store:
		return *copied.Field[turns.Turn](store, "wire", "Wire", "Turn"), nil
	case *cas.Store:
		return *copied.Field[turns.Turn](store, "turn"), nil
	}
	return nil, fmt.Errorf("a %T has no known memory", store)
}
