package issuer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A stock is a kind of id that has some ids, and says afterwards what it was asked for.
type stock struct {
	mu           sync.Mutex
	issued, left int
	atOnce       int
	none         error  // for those who ask when there are none
	meanwhile    func() // what happens while it says so, once
	asked        []string
	moment       int64
}

// change lets f change it beside those who wait for ids.
func (s *stock) change(f func(*stock)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *stock) note(format string, args ...any) {
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

func (s *stock) Source(loop int) id.Source {
	s.note("loop %d", loop)
	return s
}
func (s *stock) Ready(int64) error { return s.none }

func (s *stock) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("%d bulk=%v moment=%d", n, bulk, when.Moment)
	if s.left == 0 {
		if s.meanwhile != nil {
			s.left++
			s.meanwhile()
		}
		return id.Run{}, s.none
	}
	r := id.Run{First: uint64(s.issued), Stride: 1, N: min(n, s.left, s.atOnce)}
	s.issued, s.left = s.issued+r.N, s.left-r.N
	return r, nil
}

// Stocks of other sorts: a ranged one reserves, a texted one has texts, a reporting one counts by itself, and a
// punctual one wants to know moments.
type (
	ranged    struct{ *stock }
	texted    struct{ *stock }
	reporting struct{ ranged }
	punctual  struct{ ranged }
)

func (s ranged) Source(loop int) id.Source {
	s.stock.Source(loop)
	return s
}
func (s ranged) Reserve(_ id.When, n int) (id.Run, error) { return id.Run{N: n}, s.none }
func (s texted) Source(loop int) id.Source {
	s.stock.Source(loop)
	return s
}
func (texted) Form() id.Form                                { return id.ULID }
func (s reporting) Source(int) id.Source                    { return s }
func (reporting) Issued() uint64                            { return 77 }
func (reporting) Refused() uint64                           { return 5 }
func (reporting) Figures(func(figure.Figure)) (c Condition) { return c }
func (s punctual) Source(int) id.Source                     { return s }
func (punctual) Where() (id.Elsewhere, bool)                { return id.Elsewhere{}, false }
func (s punctual) Moment() int64 {
	s.moment++
	return s.moment
}
func (s punctual) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	if when.Moment == 0 {
		return id.Run{}, id.ErrMoment
	}
	return s.stock.Mint(when, n, bulk)
}

// named makes what Declare takes from names and their kinds, in turns.
func named(list ...any) (all []Declared) {
	for i := 0; i < len(list); i += 2 {
		def := kinds.Definition{Definition: counter.Definition{Name: list[i].(string)}, Kind: kinds.Snowflake}
		all = append(all, Declared{def, list[i+1].(Kind)})
	}
	return all
}

// newCatalog makes one whose lanes have an id at hand.
func newCatalog(t *testing.T, refuse bool) (*testbed, *Catalog) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	b.publish(t, 0, 7, start-1000, math.MaxInt64)
	return b, NewCatalog(func() int64 { return b.now }, b.Issuer, refuse)
}

// A catalogBed is a Catalog with the kinds of a script, its loops and the requests that wait.
type catalogBed struct {
	*Catalog
	t        *testing.T
	lanes    *testbed
	stocks   map[string]*stock
	kinds    map[string]Kind
	handlers map[int]*Handler
	hangUp   func()
	results  chan string
}

// stock makes a kind of a sort with some ids, of which it issues so many at once.
func (b *catalogBed) stock(name, sort string, left, atOnce int, none string) {
	s := &stock{left: left, atOnce: atOnce}
	if none == "wait" {
		s.none = id.ErrWait
	} else if none != "" {
		s.none = errors.New(none)
	}
	b.stocks[name] = s
	b.kinds[name] = map[string]Kind{"plain": s, "ranged": ranged{s}, "texted": texted{s},
		"reporting": reporting{ranged{s}}, "punctual": punctual{ranged{s}}}[sort]
}

// is says what a source is.
func (b *catalogBed) is(s id.Source) string {
	switch s := s.(type) {
	case nil:
		return "none"
	case *source:
		return "lanes"
	case *counted:
		return "counted " + b.is(s.source)
	case *countedText, *countedRange, reporting, *stock:
		_, name, _ := strings.Cut(fmt.Sprintf("%T", s), ".")
		return name
	}
	_, err := s.Mint(id.At(0), 1, false)
	return fmt.Sprint("refused: ", err)
}

// batch asks as HTTP does.
func (b *catalogBed) batch(ctx context.Context, key string, n int) string {
	began := time.Now()
	runs, err := b.Batch(ctx, []byte(key), n)
	said := fmt.Sprintf("%s after %v:", key, time.Since(began))
	for _, r := range runs {
		if key == "" {
			r.First = generator.Katsubushi().Decompose(r.First).Worker
		}
		said += fmt.Sprintf(" %d from %d", r.N, r.First)
	}
	if err != nil {
		said += fmt.Sprintf(" %v (%T)", err, err)
	}
	return said
}

func (b *catalogBed) counts(of func(*Name) uint64) string {
	var said []string
	for _, g := range b.Names() {
		said = append(said, fmt.Sprint(g.Name, " ", of(g)))
	}
	return strings.Join(said, ", ")
}

// noted says how often the first name is noted when a loop, or a connection apart, asks for a key: by whom.
func (b *catalogBed) noted(who, key string) (said string) {
	h, own := b.handlers[0], new(latency.Asked)
	one := h.Noting(own)
	ask := map[string]func([]byte) id.Source{"loop": h.Source, "loop-by-name": h.Named, "connection": one.Source,
		"connection-by-name": one.Named}[who]
	for i, asked := range []*latency.Asked{h.Asked(), own} {
		before, _ := b.Names()[0].Took.Total()
		s := latency.Sampler{Histogram: new(latency.Histogram), Asked: asked}
		s.Begins(0)
		ask([]byte(key))
		s.Answered()
		s.Ends()
		after, _ := b.Names()[0].Took.Total()
		said += fmt.Sprintf("by the %s %d times\n", [...]string{"loop", "connection"}[i], after-before)
	}
	return said
}

// TestCatalog: testdata/catalog.txt has which kind answers for a key, and who counts what.
func TestCatalog(t *testing.T) {
	steps.Run(t, "testdata/catalog.txt", func(t *testing.T) steps.Calls {
		b := &catalogBed{t: t, stocks: map[string]*stock{}, kinds: map[string]Kind{}, handlers: map[int]*Handler{},
			results: make(chan string, 9)}
		return steps.Calls{
			"": func() (said string) {
				for len(b.results) > 0 {
					said += "- " + <-b.results + "\n"
				}
				return said
			},
			"catalog": func(refuse bool) { b.lanes, b.Catalog = newCatalog(t, refuse) },
			"of":      func(kind string) { b.Catalog = NewCatalog(time.Now().UnixMilli, b.kinds[kind], false) },
			"stock":   b.stock,
			"put":     func(name string, n int) { b.stocks[name].change(func(s *stock) { s.left += n }) },
			"spent": func(name, none string) {
				b.stocks[name].change(func(s *stock) { s.none = errors.New(none) })
			},
			// rings while it is asked in vain
			"rings": func(name string) { b.stocks[name].meanwhile = b.Wake },
			"asked": func(name string) string {
				s := b.stocks[name]
				s.mu.Lock()
				defer s.mu.Unlock()
				defer func() { s.asked = nil }()
				return strings.Join(s.asked, ", ")
			},
			"declare": func(name, kind string) { b.Declare(named(name, b.kinds[kind])) },
			"unsure": func(refuse bool, why string) {
				var unsure error
				if why != "" {
					unsure = errors.New(why)
				}
				b.RefuseUnknown(refuse, unsure)
			},
			"handler": func(loop int) { b.handlers[loop] = b.Handler(loop, nil) },
			"source":  func(loop int, key string) string { return b.is(b.handlers[loop].Source([]byte(key))) },
			"named":   func(loop int, key string) string { return b.is(b.handlers[loop].Named([]byte(key))) },
			"same": func(loop int, key, other string) bool {
				return b.handlers[loop].Source([]byte(key)) == b.handlers[loop].Source([]byte(other))
			},
			"mint": func(loop int, key string, n int) (int, error) {
				r, err := b.handlers[loop].Source([]byte(key)).Mint(id.At(0), n, false)
				return r.N, err
			},
			"reserve": func(loop int, key string, n int) (int, error) {
				r, err := b.handlers[loop].Named([]byte(key)).(id.Reserver).Reserve(id.At(0), n)
				return r.N, err
			},
			"noted":    b.noted,
			"form":     func(key string) bool { return b.handlers[0].Named([]byte(key)).(id.Texter).Form() == id.ULID },
			"declares": func(key string) bool { return b.Declares([]byte(key)) },
			"batch":    func(key string, n int) string { return b.batch(t.Context(), key, n) },
			"begin": func(key string, n int) {
				ctx, cancel := context.WithCancel(t.Context())
				b.hangUp = cancel
				go func() { b.results <- b.batch(ctx, key, n) }()
			},
			"hang-up": func() { b.hangUp() },
			"wake":    func() { b.Wake() },
			"sleep":   time.Sleep,
			"issued":  func() string { return b.counts((*Name).Issued) },
			"refused": func() string { return b.counts((*Name).Refused) },
			"seal":    func() { b.lanes.Seal(0) },
			"ready":   func() error { return b.Ready() },
		}
	})
}

// TestTheSieveLetsAllNamesPass: names of every length and with every first byte are found, also when
// they were declared while the Handler was in use; and keys just beside them are not.
func TestTheSieveLetsAllNamesPass(t *testing.T) {
	const first = "ABCXYZabcxyz0189_.:{}-"
	_, c := newCatalog(t, false)
	c.Declare(named("orders", new(stock)))
	early := c.Handler(0, nil)
	var all []string
	for i := range kinds.MaxName {
		all = append(all, string(first[i%len(first)])+strings.Repeat("n", i))
	}
	byName := map[string]*stock{}
	for half := range 2 {
		var list []Declared
		for i := half; i < len(all); i += 2 {
			byName[all[i]] = new(stock)
			list = append(list, named(all[i], byName[all[i]])...)
		}
		c.Declare(list)
	}
	for _, h := range []*Handler{early, c.Handler(1, nil)} {
		for _, name := range all {
			s, ok := h.Source([]byte(name)).(*counted)
			if !ok || s.source != id.Source(byName[name]) {
				t.Errorf("%q is not found", name)
			}
			if rest, sieve := h.Sieve(); rest != h.others || sieve[name[0]]>>(len(name)%64)&1 == 0 {
				t.Errorf("Sieve lets %q not pass", name)
			}
			for _, key := range []string{name[1:], name + "n", "I" + name[1:], name + strings.Repeat("n", 64)} {
				if byName[key] == nil && h.Source([]byte(key)) != h.others {
					t.Errorf("%q is taken for %q", key, name)
				}
			}
		}
		if !h.names.Load().mayHave([]byte("orders")) || h.names.Load().mayHave([]byte("id")) {
			t.Error("the sieve holds back a name, or lets id pass")
		}
	}
}

// TestNamesAreDeclaredWhileSessionsLive is for the race detector: a name that a loop finds has a source.
func TestNamesAreDeclaredWhileSessionsLive(t *testing.T) {
	_, c := newCatalog(t, false)
	const all = 200
	handlers := []*Handler{c.Handler(0, nil), c.Handler(1, nil)}
	var sessions sync.WaitGroup
	for _, h := range handlers {
		sessions.Go(func() {
			for n := 0; n < all; n++ {
				key := fmt.Appendf(nil, "name%d", n)
				for h.Source(key) == h.others {
					if h.Named(key) != nil && h.Source(key) == h.others {
						t.Error("a name is declared, and not found")
					}
				}
				if s, ok := h.Source(key).(*counted); !ok || s.source == nil {
					t.Errorf("%s has %v", key, s)
				}
			}
		})
	}
	for n := range all {
		c.Declare(named(fmt.Sprintf("name%d", n), new(stock)))
		c.Names()[n].Issued()
	}
	sessions.Wait()
}
