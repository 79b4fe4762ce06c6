package issuer

import "github.com/katsubushi/katsubushi/v3/id"

// A Kind is a kind of id, with all that issues it. Its methods may be called from any goroutine.
type Kind interface {
	// Source is the kind as an event loop uses it; loops are counted from 0. A loop asks for it
	// once and keeps it.
	Source(loop int) id.Source
	// Ready says whether an id would be issued at now, Unix ms: nil, or the refusal that a client
	// would get.
	Ready(now int64) error
}

// A Catalog says which kind of id a key asks for. Whoever issues ids asks it: every grammar on
// every port, and HTTP. It never changes, so it needs no lock.
type Catalog struct {
	now    func() int64
	others Kind            // what keys ask for that named does not have
	named  map[string]Kind // by key
}

// NewCatalog makes a catalogue of kinds by their keys; the one under "" answers all keys that are
// not there. now is the id clock.
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

// Ready says whether ids of every kind would be issued: nil, or a refusal.
func (c *Catalog) Ready() error {
	now := c.now()
	for _, kind := range c.named {
		if err := kind.Ready(now); err != nil {
			return err
		}
	}
	return c.others.Ready(now)
}

// Batch issues n ids, at least 1, for a key, all or none. More than one are bulk. The error is the
// source's.
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

// A Handler is the catalogue as one event loop uses it: a protocol.Handler, safe for any number of
// goroutines.
type Handler struct {
	others id.Source
	named  map[string]id.Source
	stats  Stats
}

// Stats answers a client that asks for statistics; see protocol.Handler.
type Stats func(group []byte, emit func(name, value string)) bool

// Handler makes the handler of a loop.
func (c *Catalog) Handler(loop int, stats Stats) *Handler {
	h := &Handler{others: c.others.Source(loop), named: make(map[string]id.Source, len(c.named)), stats: stats}
	for key, kind := range c.named {
		h.named[key] = kind.Source(loop)
	}
	return h
}

// Source tells who issues what a key asks for.
func (h *Handler) Source(key []byte) id.Source {
	if len(h.named) > 0 { // looking a key up costs a tenth of answering it
		if s, ok := h.named[string(key)]; ok {
			return s
		}
	}
	return h.others
}

// Stats emits a group of statistics, see protocol.Handler.
func (h *Handler) Stats(group []byte, emit func(name, value string)) bool {
	return h.stats(group, emit)
}
