package explore

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// This file has what is different in the world of strict order if its sequence is one of timestamps: daemons have a
// time of day too, and what clients get must be near to it. Clients ask for one at a time, so a tick is never full.

// birth is the time of day, Unix ns, when the world's time was 0.
const birth = 1_790_000_000_000 * ms

// The figures of timestamps, ns. A daemon looks at its time of day with its turn, once so much has passed: later than
// one with a timer of its own does.
const (
	sampleEvery = 1000 * ms
	stampsAhead = 1000 * ms // of the clock, that is the run-ahead
	stale       = 400 * ms  // what drifts, at such rates, until a daemon that was stopped once looks at its time of day
	astray      = 500 * ms  // the fleet's time is wrong beyond that
)

// leaps are what a host's time of day is ahead after a fault: as far as it counts, and far.
var leaps = [...]int64{900 * ms, 3600_000 * ms, -3600_000 * ms}

// timed is what is the same in all states.
type timed struct {
	layout  generator.Layout
	offsets [3]atomic.Int64 // in the present state
}

// Timestamps returns the world of strict order with timestamps.
func Timestamps(mutant string) World {
	d, err := kinds.Parse("tx snowflake layout=katsubushi order=strict node=1023")
	if err != nil {
		panic(err)
	}
	l := kinds.IDLayout(d.Definition)
	return steady(&hub{definition: d.Definition, group: leader.TimedGroupOf(d.Name), timed: &timed{layout: l},
		stride: l.StrideOf(), most: int(min(l.InRow(time.Duration(stampsAhead)), id.MaxReserve))}, mutant)
}

// clock is what a daemon's Strict needs to know of the time.
func (t *timed) clock(w *strict, i int) (c issuer.Clock) {
	if t != nil {
		c = issuer.Clock{Moment: func() int64 { return w.hub.w.clock(i, w.hub.w.now) }, Offset: &t.offsets[i],
			RunAhead: time.Duration(stampsAhead)}
	}
	return c
}

// enter makes a state the present one.
func (t *timed) enter(w *strict) {
	if t != nil {
		for i, m := range w.members {
			t.offsets[i].Store(m.offset)
		}
	}
}

// time is the world's time of a position.
func (t *timed) time(position uint64) int64 {
	return (int64(position>>t.layout.SequenceBits)*t.layout.Unit+t.layout.Epoch)*ms - birth
}

// wall is the time of day of a daemon's host, Unix ns.
func (w *strict) wall(i int) int64 { return birth + w.now + w.dials[i] }

// sample is what a daemon does every second, as package names does.
func (w *strict) sample(m *member) {
	if w.hub.timed == nil || w.now < m.sampled+sampleEvery {
		return
	}
	w.drift = w.drifted()
	m.sampled = w.now
	v, now := m.m.View(), w.clock(m.i, w.now)
	if v.Offset != 0 {
		apart := v.Offset + now - birth - w.now
		w.misled = w.misled || apart > astray
		w.behind = w.behind || apart < -astray || w.dials[m.i] < -astray
	}
	offset, known := v.Time(w.wall(m.i) - now)
	switch w.mutant {
	case noClamp:
		offset = w.wall(m.i) - now
	case followersClock:
		offset = w.wall((m.i+1)%len(w.members)) - now
	}
	if known {
		m.offset = offset
		w.hub.timed.offsets[m.i].Store(offset)
	}
}

// grant is a reservation at the store.
func (w *strict) grant(x *msg) (counter.Block, error) {
	t := w.hub.timed
	if t == nil {
		return w.record.Reserve(uint64(x.n), w.token())
	}
	s := x.span
	switch {
	case w.mutant == startAtNow && w.record.Term != s.Term:
		w.record.Next = min(w.record.Next, s.From)
	case w.mutant == ratchet:
		s.To = max(s.To, w.record.Next+uint64(w.record.Time.Ahead.Milliseconds()/t.layout.Unit)<<t.layout.SequenceBits)
	}
	b, err := w.record.Advance(s, w.token())
	if ahead := t.time(w.record.Next-1) - w.now; ahead > w.furthest() && !w.misled {
		w.wrong = fmt.Sprintf("the record is %v ahead", time.Duration(ahead))
	}
	return b, err
}

// drifted is how far clocks have drifted at most since a daemon had looked at its time of day. One that is stopped
// again and again looks late. It is only a margin of the checks, so no digest has it.
func (w *strict) drifted() int64 {
	most := max(w.drift, stale)
	for _, m := range w.members {
		if m.sampled > 0 {
			most = max(most, (w.now-m.sampled)/20+25*ms)
		}
	}
	return most
}

// furthest is how far ahead of the time a timestamp, or the record, may be.
func (w *strict) furthest() int64 {
	most := int64(w.record.Time.Ahead) + w.drifted()
	if w.dials != [3]int64{} {
		most += int64(leader.MaxSkew) + astray
	}
	return most
}

// timely checks the time in a timestamp that a client gets. While the store does not answer, what is left of a block is
// issued for so long after its end as it reaches ahead.
func (w *strict) timely(r request, v uint64) {
	parts := w.hub.timed.layout.Decompose(v)
	at, asked := parts.Time.UnixNano()-birth, r.moment/rates[r.at]*1000
	switch {
	case parts.Worker != w.record.Time.Node:
		w.wrong = fmt.Sprintf("%d has node %d", v, parts.Worker)
	case at > w.now+w.furthest() && !w.misled:
		w.wrong = fmt.Sprintf("the time in %d is %v ahead", v, time.Duration(at-w.now))
	case at < asked-2*int64(w.record.Time.Ahead)-w.drifted() && !w.behind:
		w.wrong = fmt.Sprintf("the time in %d is %v behind", v, time.Duration(asked-at))
	}
}

// seen is a value up to which each one that is issued again would come too late for its request, so whether they were
// issued already does not matter. Of timestamps only: of sequences few are remembered.
func (w *strict) seen() uint64 {
	if w.hub.timed == nil {
		return 0
	}
	seen := w.largest
	for _, r := range w.asks {
		seen = min(seen, r.above)
	}
	return seen
}

// clocks adds what only timestamps have.
func (d *strictDigest) clocks() {
	w := d.w
	d.Number(flags(w.misled, w.behind))
	for _, dial := range w.dials {
		d.Number(dial)
	}
	d.value(w.record.Next)
	d.value(w.record.Begin)
	d.Name(w.record.Term)
	for i, m := range w.members {
		if l := m.line; l != nil {
			span, _ := l.m.Span(1)
			d.Name(span.Term)
			d.Number(int64(i))
		}
	}
}

func (d *strictDigest) span(s counter.Span) {
	d.value(s.From)
	d.value(s.To)
	d.Number(int64(s.Need))
	d.Name(s.Term)
}

// stamp is a time of day, Unix ms.
func (d *strictDigest) stamp(t int64) {
	if t == 0 {
		d.add(1 << 52)
		return
	}
	d.Number(t*ms - birth - d.w.now)
}
