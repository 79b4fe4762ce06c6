// Package storetest is the conformance suite of worker id stores: what every workerid.Store must
// do, run on each of them.
package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A Pool is a set of worker ids that nobody used before, kept by the store under test.
type Pool struct {
	Min, Max uint64 // at least two worker ids
	Lease    int64  // ms that a window may reach into the future
	Now      func() int64
	Advance  func(ms int64) // moves the clocks of all sides; negative to set them back

	// Refusal is what the store may answer to anything while its clock is set back, having done
	// nothing. nil: it takes any clock.
	Refusal error

	// Histories is how many random ones of each kind are run; 0 = 30.
	Histories int

	// Open is the store of another daemon.
	Open func(t testing.TB) workerid.Store
	// Crash ends a daemon that gives nothing back. Its leases end when they end.
	Crash func(workerid.Store)
}

// Run tests a store. open makes a pool of at least n worker ids.
func Run(t *testing.T, open func(t testing.TB, n int) Pool) {
	for _, test := range []struct {
		name string
		ids  int
		run  func(*testing.T, Pool)
	}{
		{"a grant lies within bounds", 2, testBounds},
		{"extensions are contiguous", 2, testContiguous},
		{"all lanes at once", 3, testAllLanes},
		{"one holder at a time", 2, testExclusive},
		{"release hands over at the mark", 2, testRelease},
		{"release outside the window", 2, testReleaseOutside},
		{"nothing after release", 2, testAfterRelease},
		{"a crashed holder's successor", 2, testCrash},
		{"a clock that went back", 2, testClockBack},
		{"somebody else's grant", 2, testForeignGrant},
		{"an impossible range", 2, testRange},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t, test.ids)) })
	}
	for _, unit := range []int64{1, 10, 1000} {
		t.Run(fmt.Sprintf("histories with ticks of %d ms", unit), func(t *testing.T) { testHistories(t, open, unit) })
	}
}

var ctx = context.Background()

func (p Pool) acquire(t *testing.T, s workerid.Store, owner string) workerid.Grant {
	t.Helper()
	g, err := s.Acquire(ctx, workerid.Request{Owner: owner, Min: p.Min, Max: p.Max})
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	if g.Worker < p.Min || g.Worker > p.Max || g.Owner != owner {
		t.Fatalf("%s asked for %d..%d and got %+v", owner, p.Min, p.Max, g)
	}
	if g.Hi != workerid.Forever && g.Hi > max(p.Now()+p.Lease, g.Lo-1) {
		t.Fatalf("%+v reaches %d ms into the future, not %d at most", g, g.Hi-p.Now(), p.Lease)
	}
	return g
}

// extend lengthens g and returns it so.
func (p Pool) extend(t *testing.T, s workerid.Store, g workerid.Grant) workerid.Grant {
	t.Helper()
	r := p.tryExtend(t, s, g)
	if r.Err != nil {
		t.Fatalf("Extend(%+v): %v", g, r.Err)
	}
	if r.Grant.Worker != g.Worker || r.Grant.Lo != g.Hi+1 || r.Grant.Hi > max(p.Now()+p.Lease, g.Hi) {
		t.Fatalf("Extend(%+v) = %+v at %d", g, r.Grant, p.Now())
	}
	g.Hi = max(g.Hi, r.Grant.Hi)
	return g
}

func (p Pool) tryExtend(t *testing.T, s workerid.Store, g workerid.Grant) workerid.Result {
	t.Helper()
	r, err := s.Extend(ctx, []workerid.Grant{g})
	if err != nil || len(r) != 1 {
		t.Fatalf("Extend(%+v) = %v, %v", g, r, err)
	}
	return r[0]
}

// usable extends a grant until the present lies in it.
func (p Pool) usable(t *testing.T, s workerid.Store, g workerid.Grant) workerid.Grant {
	t.Helper()
	for range 1000 {
		if g.Lo <= p.Now() && p.Now() <= g.Hi {
			return g
		}
		p.Advance(max(1, min(p.Lease/4, g.Lo-p.Now())))
		g = p.extend(t, s, g)
	}
	t.Fatalf("%+v does not reach the present, %d", g, p.Now())
	return g
}

func testBounds(t *testing.T, p Pool) {
	s := p.Open(t)
	for range int(p.Max - p.Min + 1) {
		p.acquire(t, s, "a")
	}
}

func testContiguous(t *testing.T, p Pool) {
	s := p.Open(t)
	g := p.usable(t, s, p.acquire(t, s, "a"))
	for range 20 {
		p.Advance(p.Lease / 3)
		before := g
		g = p.extend(t, s, g)
		if g.Hi < p.Now() {
			t.Fatalf("extended from %d to %d at %d: nothing to issue from", before.Hi, g.Hi, p.Now())
		}
	}
	p.Advance(3 * p.Lease) // a pause that nobody used
	if g = p.extend(t, s, g); g.Hi < p.Now() {
		t.Errorf("after a pause the window ends at %d, at %d", g.Hi, p.Now())
	}
}

func testAllLanes(t *testing.T, p Pool) {
	s := p.Open(t)
	held := []workerid.Grant{p.acquire(t, s, "a"), p.acquire(t, s, "a"), p.acquire(t, s, "a")}
	if held[0].Worker == held[1].Worker || held[1].Worker == held[2].Worker || held[0].Worker == held[2].Worker {
		t.Fatalf("the same worker id twice: %+v", held)
	}
	if err := s.Release(ctx, held[1], held[1].Lo-1); err != nil {
		t.Fatal(err)
	}
	p.Advance(p.Lease / 2)
	results, err := s.Extend(ctx, held)
	if err != nil || len(results) != 3 {
		t.Fatalf("%v, %v", results, err)
	}
	for i, r := range results {
		if i == 1 && !errors.Is(r.Err, workerid.ErrLost) || i != 1 &&
			(r.Err != nil || r.Grant.Worker != held[i].Worker || r.Grant.Lo != held[i].Hi+1) {
			t.Errorf("lane %d, %+v: %+v", i, held[i], r)
		}
	}
}

func testExclusive(t *testing.T, p Pool) {
	a, b := p.Open(t), p.Open(t)
	taken := map[uint64]bool{}
	for range int(p.Max-p.Min) + 1 {
		g := p.usable(t, a, p.acquire(t, a, "a"))
		if taken[g.Worker] {
			t.Fatalf("worker id %d granted twice", g.Worker)
		}
		taken[g.Worker] = true
		defer func() { p.extend(t, a, g) }() // b's trying must not have hurt
	}
	if g, err := b.Acquire(ctx, workerid.Request{Owner: "b", Min: p.Min, Max: p.Max}); !errors.Is(err, workerid.ErrNoID) {
		t.Errorf("all are taken, and b got %+v, %v", g, err)
	}
}

func testRelease(t *testing.T, p Pool) {
	s := p.Open(t)
	one := workerid.Request{Owner: "a", Min: p.Min, Max: p.Min}
	mark := int64(-1)
	for i := range 10 {
		g, err := s.Acquire(ctx, one)
		if err != nil {
			t.Fatal(err)
		}
		if g.Lo <= mark {
			t.Fatalf("round %d: granted from %d, but ids went to %d", i, g.Lo, mark)
		}
		g = p.usable(t, s, g)
		last := p.Now() // used up to the present
		if i%3 == 0 {
			last = g.Lo - 1 // not used
		}
		if err := s.Release(ctx, g, last); err != nil {
			t.Fatal(err)
		}
		mark = last
		p.Advance(1)
	}
	// What was given back exactly can be used at once.
	if g, err := s.Acquire(ctx, one); err != nil || g.Lo > p.Now() {
		t.Errorf("%+v, %v at %d", g, err, p.Now())
	}
}

func testReleaseOutside(t *testing.T, p Pool) {
	s := p.Open(t)
	g := p.usable(t, s, p.acquire(t, s, "a"))
	for _, last := range []int64{g.Lo - 2, g.Hi + 1} {
		if err := s.Release(ctx, g, last); err == nil {
			t.Errorf("%+v released at %d", g, last)
		}
	}
	p.Crash(s)
	p.Advance(p.Lease + 2)
	b := p.Open(t)
	next, err := b.Acquire(ctx, workerid.Request{Owner: "b", Min: g.Worker, Max: g.Worker})
	if err != nil || next.Lo <= g.Hi {
		t.Errorf("after a refused release: %+v, %v; %+v was held", next, err, g)
	}
}

func testAfterRelease(t *testing.T, p Pool) {
	s := p.Open(t)
	g := p.usable(t, s, p.acquire(t, s, "a"))
	if err := s.Release(ctx, g, p.Now()); err != nil {
		t.Fatal(err)
	}
	if r := p.tryExtend(t, s, g); !errors.Is(r.Err, workerid.ErrLost) {
		t.Errorf("extended after release: %+v", r)
	}
	if err := s.Release(ctx, g, p.Now()); err == nil {
		t.Error("released twice")
	}
	p.Advance(2) // some stores leave out a millisecond
	b := p.Open(t)
	next, err := b.Acquire(ctx, workerid.Request{Owner: "b", Min: g.Worker, Max: g.Worker})
	if err != nil || next.Lo > p.Now() {
		t.Errorf("%+v, %v at %d", next, err, p.Now())
	}
}

func testCrash(t *testing.T, p Pool) {
	s := p.Open(t)
	g := p.usable(t, s, p.acquire(t, s, "a"))
	p.Advance(p.Lease / 2)
	g = p.extend(t, s, g)
	p.Crash(s)
	p.Advance(p.Lease + 2)
	b := p.Open(t)
	next, err := b.Acquire(ctx, workerid.Request{Owner: "b", Min: g.Worker, Max: g.Worker})
	if err != nil || next.Lo <= g.Hi {
		t.Fatalf("%+v, %v; %+v was held", next, err, g)
	}
	p.usable(t, b, next)
}

func testClockBack(t *testing.T, p Pool) {
	s := p.Open(t)
	g := p.usable(t, s, p.acquire(t, s, "a"))
	g = p.extend(t, s, g)
	p.Advance(-3000)
	if longer := p.extend(t, s, g); longer.Hi < g.Hi {
		t.Errorf("the window shrank from %d to %d", g.Hi, longer.Hi)
	}
	p.Crash(s)
	b := p.Open(t)
	next, err := b.Acquire(ctx, workerid.Request{Owner: "b", Min: g.Worker, Max: g.Worker})
	if err == nil && next.Lo <= g.Hi {
		t.Errorf("%+v after %+v", next, g)
	}
}

func testForeignGrant(t *testing.T, p Pool) {
	a, b := p.Open(t), p.Open(t)
	g := p.usable(t, a, p.acquire(t, a, "a"))
	theirs := g
	theirs.Owner = "b"
	if r := p.tryExtend(t, b, theirs); !errors.Is(r.Err, workerid.ErrLost) {
		t.Errorf("b extended a's grant: %+v", r)
	}
	if err := b.Release(ctx, theirs, p.Now()); err == nil {
		t.Error("b released a's grant")
	}
	p.extend(t, a, g)
}

func testRange(t *testing.T, p Pool) {
	s := p.Open(t)
	if g, err := s.Acquire(ctx, workerid.Request{Owner: "a", Min: p.Max, Max: p.Min}); err == nil {
		t.Errorf("an empty range gave %+v", g)
	}
}

// testHistories lets three daemons do anything in any order and looks at the ids.
func testHistories(t *testing.T, open func(t testing.TB, n int) Pool, unit int64) {
	p := open(t, 2)
	for seed := range uint64(cmp.Or(p.Histories, 30)) {
		if seed > 0 {
			p = open(t, 2)
		}
		h := history{
			T: t, Pool: p, rnd: rand.New(rand.NewPCG(seed, uint64(unit))), seed: seed, seen: map[uint64]bool{},
			layout: generator.Layout{Epoch: 1420070400000, Unit: unit, TimeBits: 41, WorkerBits: 10, SequenceBits: 2},
		}
		h.run()
	}
}

type history struct {
	*testing.T
	Pool
	rnd     *rand.Rand
	seed    uint64
	layout  generator.Layout
	daemons [3]daemon
	seen    map[uint64]bool
	issued  int
}

type daemon struct {
	store workerid.Store
	grant workerid.Grant
	ids   *generator.Snowflake // nil: holds nothing
	n     int                  // lives, for owners' names
}

func (h *history) run() {
	for range 400 {
		d := &h.daemons[h.rnd.IntN(len(h.daemons))]
		if d.store == nil {
			d.store = h.Open(h)
			d.n++
		}
		h.step(d)
		if h.Failed() {
			h.Fatalf("seed %d, unit %d", h.seed, h.layout.Unit)
		}
	}
	if h.issued == 0 {
		h.Errorf("seed %d: no id was ever issued", h.seed)
	}
}

func (h *history) step(d *daemon) {
	switch k := h.rnd.IntN(20); {
	case k == 0:
		h.Crash(d.store)
		d.store, d.ids = nil, nil
	case k == 1:
		h.Advance(-h.rnd.Int64N(2 * h.Lease))
	case k < 6:
		h.Advance(h.rnd.Int64N(h.Lease))
	case d.ids == nil:
		g, err := d.store.Acquire(ctx, workerid.Request{Owner: fmt.Sprintf("%p life %d", d, d.n), Min: h.Min, Max: h.Max})
		if err != nil {
			return
		}
		ids, err := generator.NewSnowflake(generator.Options{Layout: h.layout, Worker: g.Worker, Lo: g.Lo,
			Hi: max(g.Hi, g.Lo-1)})
		if err != nil {
			h.Error(err)
			return
		}
		g.Hi = max(g.Hi, g.Lo-1)
		d.grant, d.ids = g, ids
	case k < 8:
		if err := d.store.Release(ctx, d.grant, d.ids.Seal()); err != nil && !errors.Is(err, workerid.ErrLost) &&
			!h.refused(err) {
			h.Errorf("release of %+v at %d: %v", d.grant, d.ids.Position(), err)
		}
		d.ids = nil
	case k < 12:
		r, err := d.store.Extend(ctx, []workerid.Grant{d.grant})
		if h.refused(err) {
			return
		}
		if err != nil || len(r) != 1 {
			h.Fatalf("Extend(%+v) = %v, %v", d.grant, r, err)
		}
		h.extended(d, r[0])
	default:
		h.take(d.ids)
	}
}

func (h *history) refused(err error) bool { return h.Refusal != nil && errors.Is(err, h.Refusal) }

func (h *history) extended(d *daemon, r workerid.Result) {
	switch {
	case r.Err != nil:
		d.ids = nil
	case r.Grant.Lo <= r.Grant.Hi:
		d.grant.Hi = r.Grant.Hi
		if err := d.ids.Extend(r.Grant.Lo, r.Grant.Hi); err != nil {
			h.Error(err)
		}
	}
}

func (h *history) take(g *generator.Snowflake) {
	r, err := g.Take(h.Now(), h.Now()+1000, 1+h.rnd.IntN(6))
	if err != nil {
		return
	}
	for i := range r.N {
		id := r.First + uint64(i)*r.Stride
		if h.seen[id] {
			h.Errorf("%d was issued twice, as %+v", id, h.layout.Decompose(id))
		}
		h.seen[id] = true
		h.issued++
	}
}
