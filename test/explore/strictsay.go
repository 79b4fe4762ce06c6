package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// An answeredOp is a request that was answered, and those before it.
type answeredOp struct {
	before     *answeredOp
	client     int
	begin, end int64 // in the order of events
	value      uint64
}

// rising is what strict order means to porcupine: values are issued in their order, each once. An operation's output is
// the place of its value, so only one can be the next, and the check takes no exponential time.
var rising = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, _, output any) (bool, any) { return state == output, state.(int) + 1 },
}

// linearizable asks porcupine.
func (op *answeredOp) linearizable() bool {
	var values []uint64
	for o := op; o != nil; o = o.before {
		values = append(values, o.value)
	}
	slices.Sort(values)
	all := make([]porcupine.Operation, 0, len(values))
	for ; op != nil; op = op.before {
		place, _ := slices.BinarySearch(values, op.value)
		all = append(all, porcupine.Operation{ClientId: op.client, Call: op.begin, Output: place, Return: op.end})
	}
	return porcupine.CheckOperations(rising, all)
}

// Now implements World.
func (w *strict) Now() int64 { return w.now / ms }

// Err implements World. Porcupine judges the whole history at the end of each schedule, and whatever else was found.
func (w *strict) Err() error {
	if w.wrong == "" && w.now < w.judge {
		return nil
	}
	switch well := w.history.linearizable(); {
	case w.wrong != "" && well:
		return errors.New(w.wrong + " (porcupine sees nothing wrong)")
	case w.wrong != "":
		return errors.New(w.wrong)
	case !well:
		return errors.New("porcupine: the values are in no order that clients could have seen")
	}
	return nil
}

// serves says whether the last requests but the newest were answered, by every daemon.
func (w *strict) serves() bool {
	answered := 0
	for o := w.history; o != nil; o = o.before {
		if o.client > w.turn-9 && o.client <= w.turn-3 {
			answered++
		}
	}
	return answered == 6
}

// A strictDigest is a digest of one daemon's times and of revisions.
type strictDigest struct {
	digest
	w         *strict
	member    int
	revisions []int64
}

// Moment implements leader.Visitor.
func (d *strictDigest) Moment(t int64) {
	if t == 0 {
		d.add(1 << 57)
		return
	}
	d.Number(max(t-d.w.clock(d.member, d.w.now), -oldMoment))
}

// oldMoment is how far back moments are told apart, ns: no rule of an election looks further, but for keys that are
// deleted after a minute.
const oldMoment = 8e9

// Revision implements leader.Visitor. Revisions are only compared with each other.
func (d *strictDigest) Revision(n int64) {
	for i, x := range d.revisions {
		if x == n {
			d.add(uint64(i) | 1<<56)
			return
		}
	}
	d.add(uint64(len(d.revisions)) | 1<<56)
	d.revisions = append(d.revisions, n)
}

// value counts from the next one that is free. Much smaller ones count as one. A position counts from the present.
func (d *strictDigest) value(v uint64) {
	switch t := d.w.hub.timed; {
	case v == 0:
		d.add(1 << 55)
	case t != nil:
		d.Number(t.time(v) - d.w.now)
		d.add(v & t.layout.MaxSequence())
	default:
		r := d.w.record
		d.Number(max(int64(v)-int64(r.Next), -2*int64(max(r.Batch, 6)*r.Step)))
	}
}

// id is what a client gets for a value.
func (d *strictDigest) id(v uint64) {
	if t := d.w.hub.timed; t != nil {
		v = t.layout.PositionOf(v)
	}
	d.value(v)
}

// Offset implements leader.Visitor.
func (d *strictDigest) Offset(o int64) {
	if o == 0 {
		d.add(1 << 53)
		return
	}
	d.Number(o + d.w.clock(d.member, d.w.now) - birth - d.w.now)
}

func (d *strictDigest) block(all ...counter.Block) {
	for _, b := range all {
		d.value(b.Lo)
		d.value(b.Hi)
		d.Name(b.Token)
	}
}

func (d *strictDigest) until(all ...int64) {
	for _, t := range all {
		if t == 0 {
			d.add(1 << 54)
		} else {
			d.Number(max(t-d.w.now, 0))
		}
	}
}

// Digest implements World.
func (w *strict) Digest() uint64 {
	d := strictDigest{digest: digest{seen: make([]string, 0, 32)}, w: w, revisions: make([]int64, 1, 32)}
	d.numbers(int64(w.turn%6), w.asked-w.now)
	l := w.board.Leaders[w.hub.group]
	d.names(l.ID, l.Heir)
	d.Revision(l.Revision)
	d.nodes(w.board.Nodes)
	d.Name(w.record.Token)
	d.id(w.largest)
	seen := w.seen()
	for _, v := range w.issued {
		if v > seen {
			d.id(v)
		}
	}
	if w.hub.timed != nil {
		d.clocks()
	}
	for i, m := range w.members {
		d.member = i
		m.visit(&d)
	}
	for i := range w.msgs {
		d.msg(&w.msgs[i])
	}
	for _, r := range w.asks {
		d.member = r.at
		d.Number(int64(r.at))
		d.Moment(r.moment)
		d.until(r.resumes)
		d.Moment(r.until)
		d.id(r.above)
		if m := w.members[r.at]; m.line != nil && m.line.term.Number == r.term {
			d.Number(-1)
		}
	}
	return d.h
}

func (m *member) visit(d *strictDigest) {
	d.Name(m.name)
	d.until(m.due(), m.frozen, m.cut)
	d.Moment(m.began)
	if m.m == nil {
		return
	}
	m.m.Visit(d.w.hub.group, d)
	m.s.Visit(func(address string, leads bool, last uint64) {
		d.Name(address)
		d.id(last)
		if leads {
			d.Number(-2)
		}
	})
	m.batches.Visit(func(moment int64, v uint64) {
		d.Moment(moment)
		if v < 2 {
			d.Number(int64(v))
		} else {
			d.id(v)
		}
	}, d.id)
	d.pending(m.call, m.forward)
	d.Number(m.late)
	d.Moment(m.stall)
	d.Moment(m.before)
	d.block(m.tail, m.newest)
	d.id(m.surplus)
	d.Offset(m.offset)
	d.until(m.sampled + sampleEvery)
	if l := m.line; l != nil {
		d.Revision(l.term.Fence)
		d.pending(l.call, l.returned)
		d.until(l.retry)
		d.block(l.granted)
		d.Number(flags(l.ending, l.sealed))
		l.m.Visit(func(b counter.Block, next, floor uint64, _, came time.Time, numbers ...uint64) {
			if d.w.hub.timed != nil && !came.IsZero() {
				d.Moment(came.UnixNano())
			}
			d.block(b)
			d.value(next)
			d.value(floor)
			for _, n := range numbers {
				d.add(n)
			}
		})
		switch s := l.to.(*issuer.Sequence); {
		case d.w.hub.timed != nil:
			s.VisitTimed(d.w.clock(d.member, d.w.now), d.value, d.id, d.Number)
		default:
			s.Visit(d.values)
		}
	}
}

// values are of one block of a sequence: its first value, and how many; or others.
func (d *strictDigest) values(all ...uint64) {
	d.value(all[0])
	for _, n := range all[1:] {
		d.add(n)
	}
}

func (d *strictDigest) pending(all ...pending) {
	for _, p := range all {
		if p.serial == 0 {
			d.until(max(p.until-d.w.now, 0))
			continue
		}
		d.until(p.until)
		d.Number(int64(p.n))
		d.Moment(p.sent)
	}
}

func (d *strictDigest) msg(x *msg) {
	m := d.w.members[x.from]
	d.member = x.from
	bits := flags(x.answer, x.lost, m.life == x.life, x.done, x.err != nil, m.call.serial == x.serial,
		m.forward.serial == x.serial, m.line != nil && m.line.call.serial == x.serial)
	d.Number(int64(x.kind) | int64(x.from)<<4 | int64(x.to+1)<<8 | bits<<12)
	d.until(x.at)
	x.change.Visit(d.w.hub.group, d)
	d.Revision(x.term.Fence)
	d.Number(int64(x.n))
	d.block(x.block)
	d.value(x.next)
	d.id(x.last)
	if d.w.hub.timed != nil {
		d.stamp(x.change.Stamp)
		d.span(x.span)
	}
	if x.answer && x.kind == toCommit {
		d.Revision(x.state.Leaders[d.w.hub.group].Revision)
		d.nodes(x.state.Nodes)
	}
}

func (d *strictDigest) nodes(all []leader.NodeKey) {
	for _, n := range all {
		d.Name(n.ID)
		d.Revision(n.Revision)
		if d.w.hub.timed != nil {
			d.stamp(n.Stamp)
		}
	}
}

// Say implements World.
func (w *strict) Say(c Choice) string {
	e := w.first(-1)
	who := "daemon " + w.members[w.who(e)].name
	call := []string{"%s looks what is due", "a late message of %s arrives", "a client asks %s",
		"a request that was held goes on at %s"}[e.what]
	long, later, until := span(delays[c.Arg]/ms), nextEvent, "until "+nextEvent
	if c.Faults > 0 {
		later, until = long+" later", "for "+span(held/ms)
	}
	return say("strict", c, "WHO", who, "CALL", fmt.Sprintf(call, who), "REQUEST", place(c), "LATER", later, "LONG", long,
		"SPAN", span(stops[c.Arg]/ms), "UNTIL", until, "LEAP", span(leaps[c.Arg]/ms))
}
