package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// orders is another kind of id: numbers in a row, at most so many at once.
type orders struct {
	next   uint64
	atOnce int
	asked  []bool // whether what was asked for was bulk
	loops  []int  // that asked for a source
	refuse error
}

func (o *orders) Source(loop int) id.Source {
	o.loops = append(o.loops, loop)
	return o
}
func (o *orders) Ready(int64) error { return o.refuse }

func (o *orders) Mint(_ id.When, n int, bulk bool) (id.Run, error) {
	o.asked = append(o.asked, bulk)
	if o.next >= 10 {
		return id.Run{}, errSpent
	}
	r := id.Run{First: o.next, Stride: 1, N: min(n, o.atOnce)}
	o.next += uint64(r.N)
	return r, nil
}

var errSpent = errors.New("no more orders")

// named makes what Declare takes from names and their kinds, in turns.
func named(list ...any) (all []Declared) {
	for i := 0; i < len(list); i += 2 {
		def := kinds.Definition{Definition: counter.Definition{Name: list[i].(string)}, Kind: kinds.Snowflake}
		all = append(all, Declared{def, list[i+1].(Kind)})
	}
	return all
}

func newCatalog(t *testing.T) (*testbed, *orders, *Catalog) {
	b, o := newTestbed(1, time.Second, generator.Katsubushi()), &orders{atOnce: 3}
	b.publish(t, 0, 7, start-1000, math.MaxInt64)
	c := NewCatalog(func() int64 { return b.now }, b.Issuer, false)
	c.Declare(named("orders", o))
	return b, o, c
}

func TestAKeyChoosesItsKind(t *testing.T) {
	_, o, c := newCatalog(t)
	h := c.Handler(5, nil)
	if !slices.Equal(o.loops, []int{5}) {
		t.Errorf("loops %v asked", o.loops)
	}
	for _, key := range []string{"", "id", "order", "orders2", "ORDERS", "others", "orders" + strings.Repeat("x", 64)} {
		if s := h.Source([]byte(key)); s != h.others || h.Named([]byte(key)) != nil {
			t.Errorf("%q has %v", key, s)
		}
	}
	for _, s := range []id.Source{h.Source([]byte("orders")), h.Named([]byte("orders"))} {
		if c, ok := s.(*counted); !ok || c.source != id.Source(o) {
			t.Errorf("orders has %v", s)
		}
	}
	if _, ok := h.others.(*source); !ok {
		t.Errorf("other keys have a %T", h.others)
	}
}

// TestTheSieveLetsAllNamesPass: names of every length and with every first byte are found, also when
// they were declared while the Handler was in use; and keys just beside them are not.
func TestTheSieveLetsAllNamesPass(t *testing.T) {
	const first = "ABCXYZabcxyz0189_.:{}-"
	_, _, c := newCatalog(t)
	early := c.Handler(0, nil)
	var all []string
	for i := range kinds.MaxName {
		all = append(all, string(first[i%len(first)])+strings.Repeat("n", i))
	}
	byName := map[string]*orders{}
	for half := range 2 {
		var list []Declared
		for i := half; i < len(all); i += 2 {
			byName[all[i]] = new(orders)
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

func TestUnknownKeysAreRefused(t *testing.T) {
	b, o, _ := newCatalog(t)
	for _, declared := range []bool{false, true} {
		c := NewCatalog(func() int64 { return b.now }, b.Issuer, true)
		h := c.Handler(0, nil)
		if declared {
			c.Declare(named("orders", o, "i2", o))
		}
		for _, key := range []string{"id", "0", "007", "12345678901234567890"} {
			if h.Source([]byte(key)) != h.others {
				t.Errorf("%q is not the default kind's", key)
			}
			if runs, err := c.Batch(t.Context(), []byte(key), 1); err != nil || len(runs) != 1 {
				t.Errorf("%q: %v, %v", key, runs, err)
			}
		}
		if _, err := c.Batch(t.Context(), nil, 1); err != nil {
			t.Errorf("no key: %v", err)
		}
		long := strings.Repeat("k", 64)
		for key, text := range map[string]string{
			"order": "order", "ids": "ids", "ie": "ie", "1a": "1a", "\r\n": "\r\n", long: long, long + "1": long + "...",
		} {
			s := h.Source([]byte(key))
			_, err := s.Mint(id.At(0), 1, false)
			_, batch := c.Batch(t.Context(), []byte(key), 1)
			if err != id.UnknownName(text) || batch != err || err.Error() != "no such generator: "+text ||
				h.Named([]byte(key)) != nil {
				t.Errorf("%q: %v, %v", key, err, batch)
			}
			if s != h.Source([]byte(key)) || s == h.Source([]byte("another")) {
				t.Errorf("%q: the sources of equal keys differ, or those of different ones do not", key)
			}
		}
		if declared != (h.Source([]byte("orders")) == h.Named([]byte("orders"))) ||
			declared != (h.Named([]byte("i2")) != nil) {
			t.Errorf("orders is declared: %v", declared)
		}
	}
}

// While nobody knows which names there are, what may be one gets a refusal that the client may repeat: a key that
// nobody has declared would be the client's mistake.
func TestKeysThatMayBeNames(t *testing.T) {
	b, o, _ := newCatalog(t)
	c := NewCatalog(func() int64 { return b.now }, b.Issuer, false)
	h := c.Handler(0, nil)
	c.Declare(named("orders", o))
	away := errors.New("the store is away")
	for _, unsure := range []error{away, nil} {
		c.RefuseUnknown(true, unsure)
		_, err := h.Source([]byte("items")).Mint(id.At(0), 1, false)
		_, batch := c.Batch(t.Context(), []byte("items"), 1)
		if want := cmp.Or[error](unsure, id.UnknownName("items")); err != want || batch != want {
			t.Errorf("unsure is %v: %v, %v", unsure, err, batch)
		}
		counted, _ := h.Named([]byte("items")).(id.Reserver)
		if declared := c.Declares([]byte("items")); (counted != nil) != (unsure != nil) || declared != (unsure != nil) {
			t.Errorf("unsure is %v: increments ask %v, and it may be declared: %v", unsure, counted, declared)
		}
		if counted != nil {
			if _, err := counted.Reserve(id.At(0), 1); err != unsure {
				t.Errorf("an increment: %v", err)
			}
		}
		if h.Named([]byte("7")) != nil || h.Source([]byte("7")) != h.others {
			t.Error("a number may be a name")
		}
	}
}

func TestABatchIsAllOrNothing(t *testing.T) {
	b, o, c := newCatalog(t)
	runs, err := c.Batch(t.Context(), []byte("orders"), 5)
	if want := []id.Run{{First: 0, Stride: 1, N: 3}, {First: 3, Stride: 1, N: 2}}; err != nil ||
		!slices.Equal(runs, want) {
		t.Fatalf("%v, %v", runs, err)
	}
	if _, err := c.Batch(t.Context(), []byte("orders"), 1); err != nil ||
		!slices.Equal(o.asked, []bool{true, true, false}) {
		t.Errorf("%v; bulk %v", err, o.asked)
	}
	if runs, err := c.Batch(t.Context(), []byte("orders"), 9); err != errSpent || runs != nil {
		t.Errorf("%v, %v", runs, err)
	}
	if n := c.Names()[0].Issued(); n != 6 {
		t.Errorf("%d orders counted", n)
	}
	total := 0
	runs, err = c.Batch(t.Context(), nil, perTick+1) // more than a tick has, and bulk
	for _, r := range runs {
		total += r.N
		if w := generator.Katsubushi().Decompose(r.First).Worker; w != 7 {
			t.Errorf("worker id %d", w)
		}
	}
	if err != nil || total != perTick+1 || b.slept != 0 {
		t.Errorf("%d ids, %v, slept %v", total, err, b.slept)
	}
}

// slow is a kind that has ids from time to time only.
type slow struct {
	mu    sync.Mutex
	ready int // ids that it has now
	asked int
}

func (s *slow) Source(int) id.Source { return s }
func (s *slow) Ready(int64) error    { return nil }

func (s *slow) Mint(_ id.When, n int, _ bool) (id.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.ready == 0 {
		return id.Run{}, id.ErrWait
	}
	n = min(n, s.ready)
	s.ready -= n
	return id.Run{N: n}, nil
}

func (s *slow) put(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready += n
}

func TestABatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, c := newCatalog(t)
		_ = b
		s := new(slow)
		c.Declare(named("slow", s))
		type result struct {
			runs []id.Run
			err  error
			took time.Duration
		}
		results := make(chan result, 4)
		ask := func(ctx context.Context, n int) {
			began := time.Now()
			runs, err := c.Batch(ctx, []byte("slow"), n)
			results <- result{runs, err, time.Since(began)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go ask(ctx, 1)
		synctest.Wait()
		cancel()
		if r := <-results; !errors.Is(r.err, context.Canceled) || r.runs != nil || r.took != 0 {
			t.Errorf("a request whose client is gone: %+v", r)
		}

		go ask(t.Context(), 3)
		go ask(t.Context(), 3)
		synctest.Wait()
		s.put(6)
		c.Wake()
		for range 2 {
			if r := <-results; r.err != nil || r.took != 0 {
				t.Errorf("woken at once: %+v", r)
			}
		}
		go ask(t.Context(), 3)
		synctest.Wait()
		s.put(2) // and nobody rings
		time.Sleep(Patience + time.Millisecond)
		c.Wake() // a needless one
		synctest.Wait()
		s.put(1)
		c.Wake()
		if r := <-results; r.err != nil || r.took != Patience+time.Millisecond || len(r.runs) != 2 {
			t.Errorf("in two pieces, of which one was not rung for: %+v", r)
		}
		if n := c.Names()[1].Issued(); n != 9 {
			t.Errorf("%d counted", n)
		}
	})
}

// TestNoWakeIsMissed: a Wake that comes between a Mint in vain and the wait for a Wake counts.
func TestNoWakeIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := newCatalog(t)
		s := &wakes{c: c}
		c.Declare(named("wakes", s))
		began := time.Now()
		if _, err := c.Batch(t.Context(), []byte("wakes"), 1); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// wakes rings while it is asked in vain for the first time.
type wakes struct {
	slow
	c *Catalog
}

func (w *wakes) Source(int) id.Source { return w }

func (w *wakes) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	run, err := w.slow.Mint(when, n, bulk)
	if err != nil {
		w.put(1)
		w.c.Wake()
	}
	return run, err
}

func TestOnlyTheDefaultKindMakesACatalogReady(t *testing.T) {
	b, o, c := newCatalog(t)
	o.refuse = errSpent
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
	b.Seal(0)
	if err := c.Ready(); err == nil {
		t.Error("ready without a lane")
	}
}

// A ranged source is a Reserver, a texted one a Texter, a reporting kind counts by itself.
type (
	ranged    struct{ orders }
	texted    struct{ orders }
	reporting struct{ orders }
)

func (r *ranged) Source(int) id.Source                           { return r }
func (r *ranged) Reserve(when id.When, n int) (id.Run, error)    { return id.Run{N: n}, r.refuse }
func (r *texted) Source(int) id.Source                           { return r }
func (r *texted) Form() id.Form                                  { return id.ULID }
func (r *reporting) Source(int) id.Source                        { return r }
func (r *reporting) Issued() uint64                              { return 77 }
func (*reporting) Refused() uint64                               { return 5 }
func (r *reporting) Figures(func(figure.Figure)) (c Condition)   { return c }
func (r *reporting) Reserve(when id.When, n int) (id.Run, error) { return id.Run{N: n}, nil }

// TestNamesAreNoted when they are asked for, in whichever way, and other keys are not: by a loop, and by a connection
// apart.
func TestNamesAreNoted(t *testing.T) {
	_, _, c := newCatalog(t)
	h := c.Handler(0, nil)
	own := new(latency.Asked)
	one := h.Noting(own)
	answered := func(asked *latency.Asked, ask func(key []byte) id.Source, key string) uint64 {
		before, _ := c.Names()[0].Took.Total()
		s := latency.Sampler{Histogram: new(latency.Histogram), Asked: asked}
		s.Begins(0)
		if ask([]byte(key)) == nil && key == "orders" {
			t.Error("orders is not declared")
		}
		s.Answered()
		s.Ends()
		after, _ := c.Names()[0].Took.Total()
		return after - before
	}
	for what, of := range map[string]struct {
		ask   func([]byte) id.Source
		asked *latency.Asked
	}{
		"a loop's": {h.Source, h.Asked()}, "a loop's name": {h.Named, h.Asked()}, "a connection's": {one.Source, own},
		"a connection's name": {one.Named, own},
	} {
		if n := answered(of.asked, of.ask, "orders"); n != 1 {
			t.Errorf("%s: noted %d times", what, n)
		}
		if n := answered(of.asked, of.ask, "others"); n != 0 {
			t.Errorf("%s, of another key: noted %d times", what, n)
		}
		if of.asked == own {
			if n := answered(h.Asked(), of.ask, "orders"); n != 0 {
				t.Errorf("%s: the loop notes it", what)
			}
		}
	}
}

func TestEveryIDIsCountedByItsName(t *testing.T) {
	_, _, c := newCatalog(t)
	shared := &orders{atOnce: 2}
	r, x, own := &ranged{orders{atOnce: 1}}, &texted{orders{atOnce: 1}}, &reporting{orders{atOnce: 1}}
	c.Handler(0, nil)
	c.Declare(named("a", shared, "b", shared, "ranged", r, "texted", x, "own", own))
	for loop := 1; loop < 4; loop++ {
		h := c.Handler(loop, nil)
		if h.Source([]byte("a")) == h.Source([]byte("b")) {
			t.Error("two names cannot be told apart")
		}
		h.Source([]byte("a")).Mint(id.At(0), 5, true) // two each, until there are no more
		h.Source([]byte("b")).Mint(id.At(0), 1, true)
		h.Source([]byte("b")).Mint(id.At(0), 1, true)
		h.Named([]byte("ranged")).(id.Reserver).Reserve(id.At(0), 100)
		h.Named([]byte("ranged")).Mint(id.At(0), 1, true)
		if s := h.Named([]byte("texted")).(id.Texter); s.Form() != id.ULID {
			t.Error(s.Form())
		}
		h.Named([]byte("texted")).Mint(id.At(0), 1, false)
		if h.Source([]byte("own")) != id.Source(own) {
			t.Error("a Reporter's sources are wrapped")
		}
	}
	r.refuse = errSpent
	c.Handler(9, nil).Named([]byte("ranged")).(id.Reserver).Reserve(id.At(0), 100)
	if _, ok := c.Handler(9, nil).Named([]byte("orders")).(id.Reserver); ok {
		t.Error("orders can be reserved")
	}
	var got []string
	for _, g := range c.Names() {
		got = append(got, fmt.Sprint(g.Name, g.Issued()))
	}
	if want := []string{"orders0", "a6", "b4", "ranged303", "texted3", "own77"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(shared.loops) != 6 { // each Handler once, whatever the number of names
		t.Errorf("sources were made for the loops %v", shared.loops)
	}
}

// A refusing kind has one answer.
type refusing struct {
	texted
	err error
}

func (r *refusing) Source(int) id.Source                    { return r }
func (r *refusing) Mint(id.When, int, bool) (id.Run, error) { return id.Run{}, r.err }

// TestEveryRefusalIsCountedByItsName: once for each request, however often it had to ask; whoever waits got none.
func TestEveryRefusalIsCountedByItsName(t *testing.T) {
	_, _, c := newCatalog(t)
	shared, r, own := &orders{next: 10}, &ranged{orders{next: 10, refuse: errSpent}}, &reporting{orders{next: 10}}
	x := &refusing{err: id.ErrWait}
	c.Declare(named("a", shared, "b", shared, "ranged", r, "texted", x, "own", own))
	for loop := range 2 {
		h := c.Handler(loop, nil)
		h.Source([]byte("a")).Mint(id.At(0), 5, true)
		h.Named([]byte("ranged")).(id.Reserver).Reserve(id.At(0), 100)
		h.Named([]byte("ranged")).Mint(id.At(0), 1, true)
		h.Named([]byte("texted")).Mint(id.At(0), 1, false)
		h.Named([]byte("own")).Mint(id.At(0), 1, false)
	}
	c.Batch(t.Context(), []byte("b"), 3)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Batch(ended, []byte("texted"), 1); err != context.Canceled {
		t.Error(err)
	}
	x.err = errSpent
	c.Batch(t.Context(), []byte("texted"), 1)
	var got []string
	for _, g := range c.Names() {
		got = append(got, fmt.Sprint(g.Name, g.Refused()))
	}
	if want := []string{"orders0", "a2", "b1", "ranged4", "texted1", "own5"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNamesAreDeclaredWhileSessionsLive is for the race detector: a name that a loop finds has a source.
func TestNamesAreDeclaredWhileSessionsLive(t *testing.T) {
	_, _, c := newCatalog(t)
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
		c.Declare(named(fmt.Sprintf("name%d", n), new(orders)))
		c.Names()[n].Issued()
	}
	sessions.Wait()
}

// A kindly is a Kind of one source, which wants to know moments and waits at first.
type kindly struct {
	id.Reserver
	clock   int64
	moments []int64
}

func (k *kindly) Source(int) id.Source        { return k }
func (k *kindly) Ready(int64) error           { return nil }
func (k *kindly) Where() (id.Elsewhere, bool) { return id.Elsewhere{}, false }
func (k *kindly) Moment() int64 {
	k.clock++
	return k.clock
}
func (k *kindly) Mint(when id.When, n int, _ bool) (id.Run, error) {
	if when.Moment == 0 {
		return id.Run{}, id.ErrMoment
	}
	if k.moments = append(k.moments, when.Moment); len(k.moments) < 3 || when.Redirect {
		return id.Run{}, id.ErrWait
	}
	return id.Run{First: 1, Stride: 1, N: min(n, 2)}, nil
}

func TestBatchKeepsItsMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kindly{}
		c := NewCatalog(time.Now().UnixMilli, k, false)
		for range 2 {
			if runs, err := c.Batch(t.Context(), nil, 4); err != nil || len(runs) != 2 {
				t.Fatal(runs, err)
			}
		}
		if want := []int64{1, 1, 1, 1, 2, 2}; !slices.Equal(k.moments, want) {
			t.Errorf("asked at %d, want %d", k.moments, want)
		}
	})
}
