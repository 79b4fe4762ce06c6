package names

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// What is different for timestamps in strict order.

// A sampledTime is the time of day for timestamps: it is sampled every second, and in between CLOCK_BOOTTIME goes on.
type sampledTime struct {
	offset atomic.Int64 // Unix ns minus clock.Boot; 0 = not known yet
	begun  atomic.Bool
	first  chan struct{}      // closed when begun
	stop   context.CancelFunc // of keepTime; nil = it does not run
}

const sampleEvery = time.Second

// sample reads the wall clock. Where daemons elect a leader, the fleet's time counts too.
func (n *Names) sample() {
	t := &n.sequences.time
	offset := time.Now().UnixNano() - n.boot()
	if e := n.sequences.election; e != nil {
		r := e.runner.Load()
		if r == nil {
			return
		}
		known := false
		if offset, known = r.View().Time(offset); !known {
			return
		}
	}
	if t.offset.Swap(offset) != 0 {
		return
	}
	for _, g := range n.Catalog.Names() { // some may have waited for the time
		if g.Timed() {
			n.sequences.keeper.Ring(g.Name)
		}
	}
}

// keepTime samples until ctx ends, from when a sequence of timestamps is known.
func (n *Names) keepTime(ctx context.Context) {
	select {
	case <-n.sequences.time.first:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		n.sample()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// clock returns what a sequence needs to know of the time; nothing, if it has no timestamps.
func (n *Names) clock(r counter.Record) (c issuer.Clock) {
	if r.Timed() {
		t := &n.sequences.time
		c = issuer.Clock{Moment: n.moment, Offset: &t.offset, RunAhead: n.c.Own.RunAhead}
		if !t.begun.Swap(true) {
			n.sample()
			close(t.first)
		}
	}
	return c
}

// keepTimestamps makes what issues the timestamps of a record if the store elects none: this daemon leads for ever.
func (n *Names) keepTimestamps(r counter.Record) (issuer.Kind, error) {
	keeper := n.sequences.keeper
	status, ring := keeper.Of(r.Name)
	s := issuer.NewStrict(issuer.StrictConfig{
		Definition: r.Definition, MaxWait: n.c.MaxWait, Moment: n.moment, Wake: n.Wake, Status: status, Ring: ring,
		Refused: &n.sequences.refused, Clock: n.clock(r),
	})
	if err := keeper.Add(r, s.Lead(func() int64 { return math.MaxInt64 }), 0, nil); err != nil {
		return nil, err
	}
	return timestamps{s, kept{r.Name, keeper}}, nil
}

// timestamps are like sequence.
type timestamps struct {
	*issuer.Strict
	kept
}

// checkNode returns why this daemon does not serve timestamps: its own ids could be the same.
func (c *Config) checkNode(def kinds.Definition) error {
	if !def.Timed() || def.Time.Node > c.Own.MaxWorker ||
		kinds.IDLayout(def.Definition).Fingerprint() != c.Own.Layout.Fingerprint() {
		return nil
	}
	return fmt.Errorf("node=%d: this daemon's worker ids go up to %d, and its own ids could be the same: a larger node, "+
		"or smaller worker ids, such as by -max-worker-id", def.Time.Node, c.Own.MaxWorker)
}

// clockWrong returns why this daemon leads no timestamps, or nil.
func (e *election) clockWrong() error {
	r := e.runner.Load()
	if r == nil {
		return nil
	}
	apart := r.View().Apart.Round(100 * time.Millisecond)
	switch {
	case apart > 0:
		return fmt.Errorf("this daemon leads no timestamps: its clock is %v ahead of the other daemons'", apart)
	case apart < 0:
		return fmt.Errorf("this daemon leads no timestamps: its clock is %v behind the other daemons'", -apart)
	}
	return nil
}
