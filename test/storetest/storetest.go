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
	"github.com/katsubushi/katsubushi/v3/test/script"
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
	script.Run(t, script.Path(t, "test/storetest/testdata/stores.script"), func(t *testing.T, play func(script.Do)) {
		c := &cast{Pool: open(t, 3), t: t, stores: map[string]workerid.Store{}, held: map[string]*holding{},
			last: map[uint64]int64{}}
		calls := c.calls()
		play(func(words []string) string { return calls.Do(t, words) })
	})
	for _, unit := range []int64{1, 10, 1000} {
		t.Run(fmt.Sprintf("histories with ticks of %d ms", unit), func(t *testing.T) { testHistories(t, open, unit) })
	}
}

var ctx = context.Background()

// A cast is daemons, and what they were granted, of a script about a pool of three worker ids. Whatever happens, each
// window lies within its bounds, begins above all that may have been issued, and is one holder's.
type cast struct {
	Pool
	t      *testing.T
	stores map[string]workerid.Store
	held   map[string]*holding
	last   map[uint64]int64 // by worker id: what may have been issued
}

// A holding is a grant of a daemon, as it is now.
type holding struct {
	workerid.Grant
	by   string
	over bool
}

func (c *cast) store(name string) workerid.Store {
	if c.stores[name] == nil {
		c.stores[name] = c.Open(c.t)
	}
	return c.stores[name]
}

// acquire gives a daemon a grant with a name, of the worker id that another one had, or of any.
func (c *cast) acquire(by, name string, of ...string) string {
	want := workerid.Request{Owner: by, Min: c.Min, Max: c.Max}
	if len(of) > 0 {
		want.Min, want.Max = c.held[of[0]].Worker, c.held[of[0]].Worker
	}
	g, err := c.store(by).Acquire(ctx, want)
	if errors.Is(err, workerid.ErrNoID) {
		return "none"
	}
	if err != nil {
		return err.Error()
	}
	if g.Worker < want.Min || g.Worker > want.Max || g.Owner != by || g.Lo <= c.last[g.Worker] {
		c.t.Errorf("%+v was granted %+v, after %d", want, g, c.last[g.Worker])
	}
	if g.Hi != workerid.Forever && g.Hi > max(c.Now()+c.Lease, g.Lo-1) {
		c.t.Errorf("%+v reaches %d ms into the future, not %d at most", g, g.Hi-c.Now(), c.Lease)
	}
	for other, h := range c.held {
		if h.Worker == g.Worker && !h.over {
			c.t.Errorf("%s and %s have %+v", other, name, g)
		}
	}
	c.held[name] = &holding{Grant: g, by: by}
	c.last[g.Worker] = g.Hi
	return ""
}

// extend extends grants of one daemon at once. Those that are lost are named.
func (c *cast) extend(names ...string) string {
	return c.extendAs(c.held[names[0]].by, c.held[names[0]].Owner, names...)
}

// extendAs is extend in the hands of a daemon, which says it is an owner.
func (c *cast) extendAs(by, owner string, names ...string) (lost string) {
	var grants []workerid.Grant
	for _, name := range names {
		g := c.held[name].Grant
		g.Owner = owner
		grants = append(grants, g)
	}
	results, err := c.store(by).Extend(ctx, grants)
	if err != nil || len(results) != len(grants) {
		return fmt.Sprint(results, err)
	}
	for i, r := range results {
		g := c.held[names[i]]
		switch {
		case errors.Is(r.Err, workerid.ErrLost):
			lost += names[i] + " is lost\n"
		case r.Err != nil || r.Grant.Worker != g.Worker || r.Grant.Lo != g.Hi+1 ||
			r.Grant.Hi > max(c.Now()+c.Lease, g.Hi):
			c.t.Errorf("%+v was extended to %+v at %d", g, r, c.Now())
		default:
			g.Hi = max(g.Hi, r.Grant.Hi)
			c.last[g.Worker] = g.Hi
		}
	}
	return lost
}

// usable extends a grant until the present lies in it.
func (c *cast) usable(name string) {
	g := c.held[name]
	for range 1000 {
		if g.Lo <= c.Now() && c.Now() <= g.Hi {
			return
		}
		c.Advance(max(1, min(c.Lease/4, g.Lo-c.Now())))
		if lost := c.extend(name); lost != "" {
			c.t.Fatal(lost)
		}
	}
	c.t.Fatalf("%+v does not reach the present, %d", g, c.Now())
}

// release gives back what was used up to "now", or the window's "lo" or "hi" and some ms.
func (c *cast) release(name, last string, more ...int64) string {
	return c.releaseAs(c.held[name].by, c.held[name].Owner, name, last, more...)
}

func (c *cast) releaseAs(by, owner, name, last string, more ...int64) string {
	g := c.held[name]
	at := map[string]int64{"now": c.Now(), "lo": g.Lo, "hi": g.Hi}[last] + append(more, 0)[0]
	as := g.Grant
	as.Owner = owner
	if err := c.store(by).Release(ctx, as, at); err != nil {
		return "refused"
	}
	g.over, c.last[g.Worker] = true, at
	return ""
}

func (c *cast) calls() script.Calls {
	return script.Calls{
		"acquire": c.acquire, "extend": c.extend, "extend-as": c.extendAs, "usable": c.usable, "release": c.release,
		"release-as": c.releaseAs,
		// tries b 2 1: to acquire it, whatever comes of that
		"tries": func(by, name string, of ...string) { c.acquire(by, name, of...) },
		// goes-on 1 20: it is extended so often, and always reaches the present
		"goes-on": func(name string, times int) {
			for range times {
				c.Advance(c.Lease / 3)
				if lost := c.extend(name); lost != "" || c.held[name].Hi < c.Now() {
					c.t.Fatalf("%+v at %d%s", c.held[name], c.Now(), lost)
				}
			}
		},
		"reaches-now": func(name string) bool { return c.held[name].Hi >= c.Now() },
		"begins":      func(name string) bool { return c.held[name].Lo <= c.Now() },
		"crash": func(by string) {
			c.Crash(c.stores[by])
			delete(c.stores, by)
			for _, h := range c.held {
				h.over = h.over || h.by == by
			}
		},
		// leases 0.5: so long; ms 2; below 0 = back
		"leases": func(n float64) { c.Advance(int64(n * float64(c.Lease))) },
		"ms":     c.Advance,
		"acquire-nothing": func(by string) string {
			_, err := c.store(by).Acquire(ctx, workerid.Request{Owner: by, Min: c.Max, Max: c.Min})
			return map[bool]string{true: "refused"}[err != nil]
		},
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
