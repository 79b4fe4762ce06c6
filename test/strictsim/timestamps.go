package strictsim

import (
	"math/rand/v2"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// Worlds of timestamps. Their hosts have a time of day too, which jumps, drifts, or is not what a daemon stamps, of
// one host at a time. While the median that a daemon knows is right, an id's time must be that of its request, and the
// record's the present, within bounds. It is not right if too few of the others renew: the checks leave that out, and
// count it.

// birth is the time of day when a world begins, Unix ns.
const birth = 1_790_000_000 * sec

// The bounds. Ahead of the true time a record is at most by what is granted ahead, by how far a leader's clock may be
// wrong, as its own and the median, and by what kills leave behind; no id is beyond it. Behind the request's arrival an
// id is at most by what is issued below the record while etcd is away.
const (
	runAhead   = sec
	misled     = 500 * ms                                // the median is not right if it is so far ahead
	mostAhead  = int64(leader.MaxSkew) + misled + 200*ms // besides what is granted ahead
	mostBehind = 2*int64(counter.DefaultAhead) + 3*sec
)

// A dial is the time of day of a host.
type dial struct {
	skew, lie int64 // ns: how far it is ahead, and what its stamps say besides
	rate      int64 // ns a second by which skew grows
	set       int64 // when skew was right
}

func (h *host) wall() int64 {
	d := &h.dial
	return birth + h.w.hands.Load() + d.skew + (h.w.hands.Load()-d.set)/sec*d.rate
}

// clocks begins a fault of a clock now and then.
func (w *World) clocks(rnd *rand.Rand) {
	if w.calm {
		return
	}
	d := &w.hosts[rnd.IntN(len(w.hosts))].dial
	far := (rnd.Int64N(2)*2 - 1) * []int64{3 * sec, 60 * sec, 3600 * sec}[rnd.IntN(3)]
	d.set = w.now
	switch rnd.IntN(4) {
	case 0:
		d.rate = far / 10
	case 1:
		d.lie = far
	default:
		d.skew = far
	}
	w.Clocks++
	w.after(rnd.Int64N(9*sec), func() {
		d.skew, d.rate, d.lie = 0, 0, 0
		w.after(rnd.Int64N(8*sec), func() { w.clocks(rnd) })
	})
}

// timely checks the time of ids that a leader issued for a request that had arrived at a moment.
func (p *process) timely(n *name, run id.Run, arrived int64) {
	w, l := p.w, kinds.IDLayout(n.record.Definition)
	for _, v := range []uint64{run.First, run.First + uint64(run.N-1)*run.Stride} {
		parts := l.Decompose(v)
		t := parts.Time.UnixNano() - birth
		switch {
		case parts.Worker != n.record.Time.Node:
			w.fail("%s: %d has node %d", n.record.Name, v, parts.Worker)
		case t > w.now+int64(n.record.Time.Ahead)+mostAhead && !w.misled:
			w.fail("%s: the time in %d is %v ahead", n.record.Name, v, time.Duration(t-w.now))
		case t < arrived-mostBehind && !p.behind:
			w.fail("%s: the time in %d is %v behind", n.record.Name, v, time.Duration(arrived-t))
		}
	}
}

// timestamps makes the names of such a world.
func (w *World) timestamps(rnd *rand.Rand) {
	for _, line := range []string{
		"tx{a} snowflake layout=katsubushi order=strict node=1023", "low{a} snowflake layout=sonyflake order=strict node=9",
		"js snowflake layout=js53 order=strict node=31 ahead=1s",
	} {
		d, err := kinds.Parse(line)
		if err != nil {
			panic(err)
		}
		w.names = append(w.names, &name{group: leader.TimedGroupOf(d.Name),
			record: counter.NewRecord(d.Definition, w.board.token()), seen: map[uint64]bool{}})
	}
	w.after(rnd.Int64N(5*sec), func() { w.clocks(rnd) })
}

// sample is what package names does every second.
func (p *process) sample() {
	h, w := p.host, p.w
	if fleet := p.m.View().Offset; fleet != 0 {
		apart := fleet + h.clock() - birth - w.hands.Load()
		if apart > misled {
			w.misled = true
			w.Misled++
		}
		p.behind = apart < -2*sec || h.wall()-birth-w.hands.Load() < -sec
	}
	offset, known := p.m.View().Time(h.wall() - h.clock())
	switch p.w.mutant {
	case NoClamp:
		offset = h.wall() - h.clock()
	case FollowersClock:
		offset = p.w.hosts[(h.index+1)%3].wall() - h.clock()
	}
	if known {
		p.offset.Store(offset)
		for _, s := range p.sequences {
			s.line.ring()
		}
	}
}

func (p *process) keepTime() {
	p.sample()
	p.after(sec, p.keepTime)
}

// clockOf is what a sequence of a process needs to know of the time.
func (p *process) clockOf(d counter.Definition) (c issuer.Clock) {
	if d.Timed() {
		c = issuer.Clock{Moment: p.host.clock, Offset: &p.offset, RunAhead: time.Duration(runAhead)}
	}
	return c
}

// advance is Advance within a term.
func (b *board) advance(n *name, t leader.Term, s counter.Span) (counter.Block, error) {
	if b.state.Leaders[t.Group].Revision != t.Fence && b.w.mutant != NoFence {
		return counter.Block{}, errFence
	}
	granted, err := b.w.mutant.Advance(&n.record, s, b.token())
	l := kinds.IDLayout(n.record.Definition)
	ahead := l.Decompose(kinds.IDOf(n.record.Definition, n.record.Next-1)).Time.UnixNano() - birth - b.w.now
	if b.w.Furthest = max(b.w.Furthest, int(ahead/ms)); ahead > int64(n.record.Time.Ahead)+mostAhead && !b.w.misled {
		b.w.fail("%s: the record is %v ahead", n.record.Name, time.Duration(ahead))
	}
	return granted, err
}

// Advance is that of a Record, of which StartAtNow and Ratchet are mutants.
func (m Mutant) Advance(r *counter.Record, s counter.Span, token string) (counter.Block, error) {
	switch {
	case m == StartAtNow && r.Term != s.Term:
		r.Next = min(r.Next, s.From)
	case m == Ratchet:
		l := kinds.IDLayout(r.Definition)
		s.To = max(s.To, r.Next+uint64(r.Time.Ahead.Milliseconds()/l.Unit)<<l.SequenceBits)
	}
	return r.Advance(s, token)
}
