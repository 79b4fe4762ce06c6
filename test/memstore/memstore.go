// Package memstore is a pool of worker ids in memory: the rules of a store in their shortest form.
// It forgets everything when the process ends, so only tests use it.
//
// The guarantee: windows of one worker id never overlap, and of two copies of one client at most
// one can extend a lease from then on.
package memstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Config is what a Pool is made of.
type Config struct {
	Min, Max uint64       // worker ids, both inclusive
	Lease    int64        // ms that a window reaches into the future at most
	Now      func() int64 // the pool's clock, Unix ms
}

// A Pool is the store's side. It may be used from any goroutine.
type Pool struct {
	c Config

	mu      sync.Mutex
	records map[uint64]*record
}

// A record is never deleted and its mark never lowered, except to what a sealed generator reported.
type record struct {
	mark      int64  // no id up to here may be granted again
	lo        int64  // start of the holder's window: the mark is never lowered below lo − 1
	until     int64  // the lease ends: the holder may extend it later too, as long as nobody else came
	owner     string // "" when it was given back
	requestID string // of the last request that changed the record
}

// NewPool makes a pool whose worker ids were never used.
func NewPool(c Config) *Pool { return &Pool{c: c, records: map[uint64]*record{}} }

// acquire grants the free worker id whose next window starts first, or returns workerid.ErrNoID.
// requestID names the request.
func (p *Pool) acquire(want workerid.Request, requestID string) (workerid.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.c.Now()
	best, found := uint64(0), (*record)(nil)
	for w := max(want.Min, p.c.Min); w <= min(want.Max, p.c.Max); w++ {
		r := p.records[w]
		if r == nil {
			r = &record{}
		}
		if r.until < now && (found == nil || r.mark < found.mark) {
			best, found = w, r
		}
	}
	if found == nil {
		return workerid.Grant{}, workerid.ErrNoID
	}
	lo, hi := found.mark+1, max(now+p.c.Lease, found.mark)
	p.records[best] = &record{mark: hi, lo: lo, until: hi, owner: want.Owner, requestID: requestID}
	return workerid.Grant{Worker: best, Owner: want.Owner, Lo: lo, Hi: hi}, nil
}

// extend lengthens a window. known are the request ids of the holder's earlier requests that the record may
// bear: the last that was answered, and all that were not.
func (p *Pool) extend(held workerid.Grant, known []string, requestID string) workerid.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.records[held.Worker]
	if err := p.check(r, held, known); err != nil {
		return workerid.Result{Err: err}
	}
	hi := max(r.mark, p.c.Now()+p.c.Lease)
	r.mark, r.until, r.requestID = hi, hi, requestID
	return workerid.Result{Grant: workerid.Grant{Worker: held.Worker, Owner: held.Owner, Lo: held.Hi + 1, Hi: hi}}
}

func (p *Pool) check(r *record, held workerid.Grant, known []string) error {
	switch {
	case r == nil || r.owner != held.Owner || held.Owner == "" || held.Hi > r.mark:
		return workerid.ErrLost
	case !slices.Contains(known, r.requestID):
		return workerid.ErrCloned
	}
	return nil
}

// release gives a grant back; see workerid.Store.
func (p *Pool) release(g workerid.Grant, last int64, known []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.records[g.Worker]
	if err := p.check(r, g, known); err != nil {
		return err
	}
	if last < r.lo-1 || last > r.mark {
		return fmt.Errorf("memstore: worker id %d released at %d, outside of its window %d..%d", g.Worker, last, r.lo, r.mark)
	}
	r.mark, r.until, r.owner = last, min(r.until, p.c.Now()-1), ""
	return nil
}

// A Client is a daemon's side: a workerid.Store, for any goroutine. What it knows between calls are
// the ids of its requests.
type Client struct {
	Pool   *Pool
	mu     sync.Mutex
	memory workerid.Requests
}

var _ workerid.Store = (*Client)(nil)

// Acquire implements workerid.Store.
func (c *Client) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	if want.Min > want.Max {
		return workerid.Grant{}, errors.New("memstore: empty range of worker ids")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	requestID := rand.Text()
	g, err := c.Pool.acquire(want, requestID)
	if err == nil {
		c.memory.Acquiring(g.Owner, requestID)
		c.memory.Acquired(g.Owner, requestID, g.Worker, "")
	}
	return g, err
}

// Extend implements workerid.Store.
func (c *Client) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]workerid.Result, len(held))
	for i, g := range held {
		requestID := rand.Text()
		known, _ := c.memory.Extending(g, requestID)
		results[i] = c.Pool.extend(g, known, requestID)
		if results[i].Err == nil {
			c.memory.Heard(g, requestID)
		}
	}
	return results, nil
}

// Release implements workerid.Store.
func (c *Client) Release(_ context.Context, g workerid.Grant, last int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Pool.release(g, last, c.memory.Releasing(g))
}
