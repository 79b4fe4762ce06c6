package issuer

import "github.com/katsubushi/katsubushi/v3/id"

// A Kind is a kind of id, with everything that issues it. Any goroutine may call its methods.
type Kind interface {
	// Source returns the source for an event loop; loops are counted from 0. A loop calls this once
	// and keeps the result.
	Source(loop int) id.Source
	// Ready returns nil if an id would be issued at now, Unix ms, or else the refusal that a client
	// would get.
	Ready(now int64) error
}

// A Catalog maps keys to kinds of id. Every grammar on every port uses it, and HTTP. It never changes,
// so it needs no lock.
type Catalog struct {
	now    func() int64
	others Kind            // for all keys that are not in named
	named  map[string]Kind // by key
}

// NewCatalog makes a Catalog of kinds by their keys. The kind under "" is used for all other keys. now
// is the id clock.
func NewCatalog(now func() int64, kinds map[string]Kind) *Catalog {
	c := &Catalog{now: now, named: make(map[string]Kind)}
	for key, kind := range kinds {
		if key == "" {
			c.others = kind
		} else {
			c.named[key] = kind
		}
	}
	return c
}

// Ready returns nil if ids of every kind would be issued, or else a refusal.
func (c *Catalog) Ready() error {
	now := c.now()
	for _, kind := range c.named {
		if err := kind.Ready(now); err != nil {
			return err
		}
	}
	return c.others.Ready(now)
}

// Batch issues n ids for a key, all or none; n must be at least 1. More than one id is bulk. The error
// is the source's.
func (c *Catalog) Batch(key []byte, n int) (runs []id.Run, err error) {
	kind, ok := c.named[string(key)]
	if !ok {
		kind = c.others
	}
	s := kind.Source(0)
	for left := n; left > 0; {
		run, err := s.Mint(c.now(), left, n > 1)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
		left -= run.N
	}
	return runs, nil
}

// A Handler gives one event loop access to the Catalog. It implements protocol.Handler, and any number
// of goroutines may use it.
type Handler struct {
	others id.Source
	named  map[string]id.Source
	stats  Stats
}

// Stats answers a client that asks for statistics; see protocol.Handler.
type Stats func(group []byte, emit func(name, value string)) bool

// Handler makes the Handler of an event loop.
func (c *Catalog) Handler(loop int, stats Stats) *Handler {
	h := &Handler{others: c.others.Source(loop), named: make(map[string]id.Source, len(c.named)), stats: stats}
	for key, kind := range c.named {
		h.named[key] = kind.Source(loop)
	}
	return h
}

// Source returns the source that issues ids for a key.
func (h *Handler) Source(key []byte) id.Source {
	if len(h.named) > 0 { // looking up a key costs a tenth of answering a request
		if s, ok := h.named[string(key)]; ok {
			return s
		}
	}
	return h.others
}

// Named returns the source of a key in the catalogue, or nil.
func (h *Handler) Named(key []byte) id.Source { return h.named[string(key)] }

// Stats emits a group of statistics, see protocol.Handler.
func (h *Handler) Stats(group []byte, emit func(name, value string)) bool {
	return h.stats(group, emit)
}
