package issuer

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// snowflake makes the kind of ids of a layout. If that is the Issuer's own, it is the Issuer. Of another
// layout, the ids are issued for the same worker ids inside the same windows, beside the lanes'
// generators; see generator.Companion. All kinds of one layout share their ids.
//
// Such ids may run only half as far ahead of the clock, so that the lanes have the other half. The error
// says that the run-ahead is too short for that.
//
// A lane whose worker id the layout cannot hold issues none.
func (is *Issuer) snowflake(l generator.Layout) (Kind, error) {
	if l.Fingerprint() == is.c.Layout.Fingerprint() {
		return is, nil
	}
	if err := checkSnowflake(is.c.Layout, l, is.c.RunAhead); err != nil {
		return nil, err
	}
	return is.others.get(is, l), nil
}

// checkSnowflake returns why a snowflake of layout l cannot be beside one of the default layout with
// this run-ahead, or nil.
func checkSnowflake(own, l generator.Layout, runAhead time.Duration) error {
	if l.Fingerprint() == own.Fingerprint() {
		return nil
	}
	// The lanes go on in the first tick after the last one of the other layout's that half the
	// run-ahead reaches.
	if least := 2 * time.Duration(own.Unit+l.Unit) * time.Millisecond; runAhead < least {
		return fmt.Errorf("issuer: ids of layout %s beside %s need a run-ahead of at least %v, not %v", l, own, least,
			runAhead)
	}
	return nil
}

// others are the kinds of other layouts, by Fingerprint. They stay for good, so that a name that goes
// and comes back goes on in the same words.
type others struct {
	mu   sync.Mutex
	all  map[string]*other
	left []Place // for the next windows of their worker ids
}

func (o *others) get(is *Issuer, l generator.Layout) *other {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.all[l.Fingerprint()]
	if !ok {
		if o.all == nil {
			o.all = make(map[string]*other)
		}
		k = &other{is: is, limits: newLimits(l, is.c.RunAhead/2), lanes: make([]otherLane, len(is.lanes))}
		k.queue.open(l, len(is.lanes))
		o.all[l.Fingerprint()] = k
	}
	return k
}

// A Place is how far the ids of another layout have come for a worker id.
type Place struct {
	Worker uint64 `json:"worker"`
	Layout string `json:"layout"` // its Fingerprint
	Next   uint64 `json:"next"`   // generator.Companion's Word
	After  int64  `json:"after"`  // the window that may go on there begins right after this Unix ms
}

// Places returns how far the ids of other layouts have come in the lanes. No request may mint any more.
func (is *Issuer) Places() (list []Place) {
	o := &is.others
	o.mu.Lock()
	defer o.mu.Unlock()
	for fingerprint, k := range o.all {
		for lane := range k.lanes {
			g, c := is.Generator(lane), k.lanes[lane].companion.Load()
			if g != nil && c != nil && c.main == g && c.err == nil {
				list = append(list, Place{g.Worker(), fingerprint, c.Word(), g.Position()})
			}
		}
	}
	return list
}

// Carry makes ids of other layouts go on at places that another Issuer has left, or this one, each in the next
// window of its worker id if that begins right after Place.After: then no other process had the worker id in
// between. Otherwise they begin above the lane's word, as everywhere. Call it before that Publish.
func (is *Issuer) Carry(places []Place) {
	o := &is.others
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = slices.Clone(places)
}

// resume takes the places of the worker id of a generator that is new in a lane, with a window from lo.
func (o *others) resume(lane int, g *generator.Snowflake, lo int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = slices.DeleteFunc(o.left, func(p Place) bool {
		if p.Worker != g.Worker() {
			return false
		}
		if k := o.all[p.Layout]; k != nil && lo == p.After+1 {
			k.renew(lane, p.Next)
		}
		return true
	})
}

// seal stops what issues beside the generator in a lane, which must be sealed.
func (o *others) seal(lane int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.all {
		if c := k.lanes[lane].companion.Load(); c != nil && c.Companion != nil {
			c.Seal()
		}
	}
}

// waiting reports whether bulk requests for ids of other layouts may wait for their next tick.
func (o *others) waiting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.all {
		if k.queue.waiting() {
			return true
		}
	}
	return false
}

// An other is the kind of ids of another layout.
type other struct {
	perLoop
	is *Issuer
	limits
	mu    sync.Mutex // held to make a companion
	lanes []otherLane
	queue queue
}

type otherLane struct {
	companion atomic.Pointer[companion]
	_         [56]byte // as in lane
}

// A companion is what issues beside main, or nothing, because of err.
type companion struct {
	*generator.Companion
	main *generator.Snowflake
	err  error
}

// at returns the companion of the generator in a lane, or nil if the lane is empty.
func (k *other) at(lane int) *companion {
	g := k.is.Generator(lane)
	if g == nil {
		return nil
	}
	if c := k.lanes[lane].companion.Load(); c != nil && c.main == g {
		return c
	}
	return k.renew(lane, aboveMain)
}

// aboveMain is where a companion begins that goes on nowhere.
const aboveMain = math.MaxUint64

// renew makes a companion, once for each generator: while mu is held, the generator in the lane is one
// that has a companion there, or none yet, because a generator that was replaced never comes back. The companion
// goes on at next.
func (k *other) renew(lane int, next uint64) *companion {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.is.Generator(lane)
	if c := k.lanes[lane].companion.Load(); c != nil && c.main == g {
		return c
	}
	c := &companion{main: g}
	c.Companion, c.err = generator.ResumeCompanion(g, k.layout, k.is.c.Random, next)
	k.lanes[lane].companion.Store(c)
	return c
}

// Ready implements Kind.
func (k *other) Ready(now int64) error {
	for i := range k.lanes {
		if c := k.at(i); c != nil && c.err == nil && c.Check(now, now+k.runAhead) == nil {
			return nil
		}
	}
	if r, wait := k.why(now, 0, false); wait > MaxWait {
		return r
	}
	return nil
}

// Source implements Kind.
func (k *other) Source(loop int) id.Source {
	return k.get(loop, func() id.Source { return &otherSource{kind: k, home: loop % len(k.lanes)} })
}

type otherSource struct {
	kind  *other
	home  int
	tired atomic.Int64 // as in source
}

// Mint implements id.Source.
func (s *otherSource) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	if run, ok := s.take(when.Now, n, bulk); ok {
		return run, nil
	}
	return s.kind.is.insist(s, when.Now, n, bulk)
}

func (s *otherSource) waits() (*atomic.Int64, *queue) { return &s.tired, &s.kind.queue }

// take tries the lanes in the order in which source.take does.
func (s *otherSource) take(now int64, n int, bulk bool) (id.Run, bool) {
	k := s.kind
	for _, limit := range [2]int64{now, now + k.runAhead} {
		for i := range k.lanes {
			c := k.at((s.home + i) % len(k.lanes))
			if c == nil || c.err != nil {
				continue
			}
			last := limit
			if bulk {
				last = min(limit, k.bulkLimit(c.End(), now))
			}
			if run, err := c.Take(now, last, n, k.leaves(bulk)); err == nil {
				return run, true
			}
		}
	}
	return id.Run{}, false
}

func (s *otherSource) why(now int64, bulk bool) (*Refusal, time.Duration) {
	return s.kind.why(now, s.home, bulk)
}

// why is Issuer.why for the companions.
func (k *other) why(now int64, home int, bulk bool) (*Refusal, time.Duration) {
	best, wait := &Refusal{NoWorkerID, "no worker id yet"}, never
	for i := range k.lanes {
		c := k.at((home + i) % len(k.lanes))
		switch {
		case c == nil:
		case c.err != nil:
			if wait == never && best.Reason == NoWorkerID {
				best = &Refusal{NoWorkerID, fmt.Sprintf("layout %s: %v", k.layout, c.err)}
			}
		default:
			r, w := k.explain(c, now, bulk)
			if r != nil && r.Reason == ClockBehind && !c.Used() &&
				(!c.main.Used() || c.main.Check(now, now+k.is.runAhead) == nil) {
				// No clock went back: the lane has not begun either, or sooner, because it runs ahead further.
				r = &Refusal{NoWorkerID, fmt.Sprintf("ids of layout %s begin in %v", k.layout, w)}
			}
			if r != nil && (w < wait || best.Reason == NoWorkerID) {
				best, wait = r, w
			}
		}
	}
	return best, wait
}
