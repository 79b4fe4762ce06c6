package issuer

import (
	"errors"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// A Handler gives one event loop access to the Catalog. It implements protocol.Handler, and any number
// of goroutines may use it.
type Handler struct {
	names   atomic.Pointer[names] // nil while every key stands for others: the cheapest check
	others  id.Source
	sources atomic.Pointer[[]id.Source] // by the number of the name; has all that names can find
	stats   Stats
	loop    int
	known   map[Kind]id.Source // of Kinds that several names may stand for
	asked   latency.Asked
}

// Stats answers a client that asks for statistics; see protocol.Handler.
type Stats func(group []byte, emit func(name, value string)) bool

// Handler makes the Handler of an event loop.
func (c *Catalog) Handler(loop int, stats Stats) *Handler {
	c.declare.Lock()
	defer c.declare.Unlock()
	h := &Handler{others: c.others.Source(loop), stats: stats, loop: loop, known: map[Kind]id.Source{}}
	h.sources.Store(new([]id.Source))
	n := c.names.Load()
	h.add(n.list)
	h.names.Store(n.orNil())
	c.handlers = append(c.handlers, h)
	return h
}

// add makes the sources of more names. Only one goroutine may call it at a time.
func (h *Handler) add(list []*Name) {
	sources := append([]id.Source(nil), *h.sources.Load()...)
	// The counters of one loop lie together, and apart from those of other loops by two cache lines.
	counters := make([]counted, len(list), len(list)+6)
	for i, g := range list {
		if _, ok := g.From.(Reporter); ok {
			sources = append(sources, g.From.Source(h.loop))
			continue
		}
		s, ok := h.known[g.From]
		if !ok {
			s = g.From.Source(h.loop)
			h.known[g.From] = s
		}
		counters[i].source = s
		g.mu.Lock()
		g.loops = append(g.loops, &counters[i])
		g.mu.Unlock()
		sources = append(sources, counters[i].as())
	}
	h.sources.Store(&sources)
}

// replace makes the source of a name that has taken the place of another one.
func (h *Handler) replace(g *Name) {
	sources := append([]id.Source(nil), *h.sources.Load()...)
	sources[g.number] = g.From.Source(h.loop)
	h.sources.Store(&sources)
}

// Source returns the source that issues ids for a key.
func (h *Handler) Source(key []byte) id.Source {
	n := h.names.Load()
	if n == nil || !n.mayHave(key) {
		return h.others
	}
	return h.declared(n, key, &h.asked)
}

// Asked is where it notes which names are asked for: for the loop's Sampler.
func (h *Handler) Asked() *latency.Asked { return &h.asked }

// A Noting is a Handler of one connection, which notes elsewhere which names are asked for.
type Noting struct {
	*Handler
	asked *latency.Asked
}

// Noting makes one.
func (h *Handler) Noting(asked *latency.Asked) *Noting { return &Noting{h, asked} }

// Source is that of the Handler.
func (h *Noting) Source(key []byte) id.Source {
	n := h.names.Load()
	if n == nil || !n.mayHave(key) {
		return h.others
	}
	return h.declared(n, key, h.asked)
}

// Named is that of the Handler.
func (h *Noting) Named(key []byte) id.Source { return h.named(key, h.asked) }

// Sieve implements protocol.Sifter.
func (h *Handler) Sieve() (rest id.Source, sieve *[256]uint64) {
	if n := h.names.Load(); n != nil {
		return h.others, &n.sieve
	}
	return h.others, nil
}

// declared looks up a key that has passed the sieve.
func (h *Handler) declared(n *names, key []byte, asked *latency.Asked) id.Source {
	if n.refuse && string(key) == "id" {
		return h.others
	}
	if g := n.find(key); g != nil {
		asked.Note(&g.Took)
		return (*h.sources.Load())[g.number]
	}
	if n.refuses(key) {
		return n.stranger(key)
	}
	return h.others
}

// Named returns the source of a declared key, or nil.
func (h *Handler) Named(key []byte) id.Source { return h.named(key, &h.asked) }

func (h *Handler) named(key []byte, asked *latency.Asked) id.Source {
	if n := h.names.Load(); n != nil {
		if g := n.find(key); g != nil {
			asked.Note(&g.Took)
			return (*h.sources.Load())[g.number]
		}
		if n.unsure != nil && n.refuses(key) {
			return n.stranger(key)
		}
	}
	return nil
}

// Stats emits a group of statistics, see protocol.Handler.
func (h *Handler) Stats(group []byte, emit func(name, value string)) bool {
	return h.stats(group, emit)
}

// names is an immutable table of the declared names. Most keys are not declared, and looking one up
// would cost a tenth of answering a request. So a sieve turns most of them away first.
type names struct {
	// sieve has the lengths, modulo 64, of the names that begin with a byte, as a set of bits. If
	// undeclared keys are refused it lets all keys pass.
	sieve  [256]uint64
	byName map[string]*Name
	list   []*Name
	refuse bool
	unsure error // see RefuseUnknown
}

func newNames(list []*Name, refuse bool, unsure error) *names {
	n := &names{byName: make(map[string]*Name, len(list)), list: list, refuse: refuse, unsure: unsure}
	for _, g := range list {
		n.byName[g.Name] = g
		n.sieve[g.Name[0]] |= 1 << (len(g.Name) % 64)
	}
	if refuse {
		for i := range n.sieve {
			n.sieve[i] = ^uint64(0)
		}
	}
	return n
}

// orNil returns nil if every key stands for the default kind.
func (n *names) orNil() *names {
	if len(n.list) == 0 && !n.refuse {
		return nil
	}
	return n
}

// mayHave reports whether a key might not stand for the default kind.
func (n *names) mayHave(key []byte) bool {
	return len(key) > 0 && n.sieve[key[0]]>>(len(key)%64)&1 != 0
}

func (n *names) find(key []byte) *Name { return n.byName[string(key)] }

// refuses reports whether a key that is not declared gets no ids.
func (n *names) refuses(key []byte) bool { return n.refuse && !kinds.Reserved(key) }

// An undeclared is the source of a key that is no name, where those are refused. It is the key itself, so
// that equal keys have equal sources.
type undeclared string

// stranger returns the source of a key that gets no ids.
func (n *names) stranger(key []byte) id.Source {
	if n.unsure != nil {
		return unsettled{n.unsure}
	}
	return unknownName(key)
}

// An unsettled is the source of all keys of which the daemon does not know yet whether they are names.
type unsettled struct{ why error }

// Mint implements id.Source.
func (u unsettled) Mint(id.When, int, bool) (id.Run, error) { return id.Run{}, u.why }

// Reserve implements id.Reserver.
func (u unsettled) Reserve(id.When, int) (id.Run, error) { return id.Run{}, u.why }

// unknownName returns the source for a key. It copies no more of a key than tells it apart from names.
func unknownName(key []byte) id.Source {
	if len(key) > kinds.MaxName {
		return undeclared(key[:kinds.MaxName]) + "..."
	}
	return undeclared(key)
}

// Mint implements id.Source.
func (n undeclared) Mint(id.When, int, bool) (id.Run, error) { return id.Run{}, id.UnknownName(n) }

// A counted is a source with a count of what it issued and refused.
type counted struct {
	source     id.Source
	n, refused atomic.Uint64
}

// fails counts an error that a client gets. Two are none: the request is asked again.
func (c *counted) fails(err error) {
	if !errors.Is(err, id.ErrWait) && err != id.ErrMoment {
		c.refused.Add(1)
	}
}

// A counted source must still be what it counts, so each kind of source has its own type.
type (
	countedText  counted
	countedRange counted
)

// as returns c as the kind of source that its source is.
func (c *counted) as() id.Source {
	switch c.source.(type) {
	case id.Texter:
		return (*countedText)(c)
	case id.Reserver:
		return (*countedRange)(c)
	}
	return c
}

// Mint implements id.Source.
func (c *counted) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	run, err := c.source.Mint(when, n, bulk)
	if err != nil {
		c.fails(err)
		return run, err
	}
	c.n.Add(uint64(run.N))
	return run, nil
}

// Mint implements id.Source.
func (c *countedText) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	return (*counted)(c).Mint(when, n, bulk)
}

// Form implements id.Texter.
func (c *countedText) Form() id.Form { return c.source.(id.Texter).Form() }

// Mint implements id.Source.
func (c *countedRange) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	return (*counted)(c).Mint(when, n, bulk)
}

// Reserve implements id.Reserver.
func (c *countedRange) Reserve(when id.When, n int) (id.Run, error) {
	run, err := c.source.(id.Reserver).Reserve(when, n)
	if err != nil {
		(*counted)(c).fails(err)
		return run, err
	}
	c.n.Add(uint64(n))
	return run, nil
}
