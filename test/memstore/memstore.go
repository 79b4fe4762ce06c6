// Package memstore is a pool of worker ids in memory: the rules of a store in their shortest form.
// It forgets everything when the process ends, so only tests and simulations use it.
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
	Mutant   Mutant       // a rule to leave out; None
}

// A Mutant is a store without one of the rules. Simulations prove with them that they would notice.
type Mutant int

// The mutants.
const (
	None             Mutant = iota
	DeleteOnRelease         // a record is deleted when its lease is given back
	StartAtNow              // a window starts at the present, not above the mark
	RenewBlindly            // whoever asks gets an extension
	IgnoreRequestIDs        // an extension is not tied to the last one
	LowerMark               // an extension sets the mark to what it grants, even if that is less
	Uncapped                // an extension adds a lease to the mark, not to the present
)

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

// Acquire grants the free worker id whose next window starts first, or returns workerid.ErrNoID.
// requestID names the request.
func (p *Pool) Acquire(want workerid.Request, requestID string) (workerid.Grant, error) {
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
	lo := found.mark + 1
	if p.c.Mutant == StartAtNow {
		lo = now
	}
	hi := max(now+p.c.Lease, found.mark)
	p.records[best] = &record{mark: hi, lo: lo, until: hi, owner: want.Owner, requestID: requestID}
	return workerid.Grant{Worker: best, Owner: want.Owner, Lo: lo, Hi: hi}, nil
}

// An Extension is a request to lengthen one grant. Known are the request ids of the holder's earlier
// requests that the record may bear: the last that was answered, and all that were not.
type Extension struct {
	Held      workerid.Grant
	Known     []string
	RequestID string
}

// Extend lengthens the windows, one result for each.
func (p *Pool) Extend(requests []Extension) []workerid.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, results := p.c.Now(), make([]workerid.Result, len(requests))
	for i, e := range requests {
		r := p.records[e.Held.Worker]
		if err := p.check(r, e.Held, e.Known); err != nil {
			results[i].Err = err
			continue
		}
		hi := max(r.mark, now+p.c.Lease)
		switch p.c.Mutant {
		case LowerMark:
			hi = now + p.c.Lease
		case Uncapped:
			hi = r.mark + p.c.Lease
		}
		r.mark, r.until, r.requestID = hi, hi, e.RequestID
		results[i].Grant = workerid.Grant{Worker: e.Held.Worker, Owner: e.Held.Owner, Lo: e.Held.Hi + 1, Hi: hi}
	}
	return results
}

func (p *Pool) check(r *record, held workerid.Grant, known []string) error {
	switch {
	case p.c.Mutant == RenewBlindly && r != nil:
	case r == nil || r.owner != held.Owner || held.Owner == "" || held.Hi > r.mark:
		return workerid.ErrLost
	case !slices.Contains(known, r.requestID) && p.c.Mutant != IgnoreRequestIDs:
		return workerid.ErrCloned
	}
	return nil
}

// Release gives a grant back; see workerid.Store.
func (p *Pool) Release(g workerid.Grant, last int64, known []string) error {
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
	if p.c.Mutant == DeleteOnRelease {
		delete(p.records, g.Worker)
	}
	return nil
}

// A Client is a daemon's side: a workerid.Store, for any goroutine. What it knows between calls are
// the ids of its requests.
type Client struct {
	Pool      *Pool
	RequestID func() string // a new request id, unique even among copies of this process; default random
	mu        sync.Mutex
	memory    workerid.Requests
}

var _ workerid.Store = (*Client)(nil)

// Acquire implements workerid.Store.
func (c *Client) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	if want.Min > want.Max {
		return workerid.Grant{}, errors.New("memstore: empty range of worker ids")
	}
	requestID := c.requestID()
	g, err := c.Pool.Acquire(want, requestID)
	if err == nil {
		c.Acquired(g, requestID)
	}
	return g, err
}

// Extend implements workerid.Store.
func (c *Client) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	requests := c.Extending(held)
	results := c.Pool.Extend(requests)
	c.Extended(requests, results)
	return results, nil
}

// Release implements workerid.Store.
func (c *Client) Release(_ context.Context, g workerid.Grant, last int64) error {
	return c.Pool.Release(g, last, c.Releasing(g))
}

// The rest is what these calls consist of, for simulations whose requests and answers take their
// time or get lost.

// Acquired notes an answer to Pool.Acquire.
func (c *Client) Acquired(g workerid.Grant, requestID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.Acquiring(g.Owner, requestID)
	c.memory.Acquired(g.Owner, requestID, g.Worker, "")
}

// Extending makes the requests for Pool.Extend and notes that they have no answer yet.
func (c *Client) Extending(held []workerid.Grant) []Extension {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := make([]Extension, len(held))
	for i, g := range held {
		requestID := c.requestID()
		known, _ := c.memory.Extending(g, requestID)
		requests[i] = Extension{Held: g, Known: known, RequestID: requestID}
	}
	return requests
}

// Extended notes the answers.
func (c *Client) Extended(requests []Extension, results []workerid.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range results {
		if r.Err == nil {
			c.memory.Heard(requests[i].Held, requests[i].RequestID)
		}
	}
}

// Releasing is what Pool.Release must know.
func (c *Client) Releasing(g workerid.Grant) (known []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.Releasing(g)
}

func (c *Client) requestID() string {
	if c.RequestID != nil {
		return c.RequestID()
	}
	return rand.Text()
}
