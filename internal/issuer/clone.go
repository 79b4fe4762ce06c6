package issuer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
)

// This file is for test/explore, which runs every schedule of a small world. It changes nothing.

// Clone is a copy of a Sequence that goes on by itself, with the same config. Nothing else may use it meanwhile. What
// it counts, and for how long it has had nothing, begins anew.
func (s *Sequence) Clone() *Sequence {
	c := &Sequence{c: s.c, tally: &tally{all: s.all}, term: s.term, above: s.above}
	switch v := s.values.(type) {
	case plain:
		c.values = plain{v.Clone(s.c.Ring)}
	case *generator.Positions:
		c.values = v.Clone()
	}
	c.short.Store(s.short.Load())
	c.why.Store(s.why.Load())
	return c
}

// Visit shows all that decides which values come next.
func (s *Sequence) Visit(show func(...uint64)) {
	s.values.(plain).Visit(show)
	show(s.short.Load(), s.above)
}

// VisitTimed is Visit for timestamps, whose values are positions; ids are what clients get. now is a moment.
func (s *Sequence) VisitTimed(now int64, position, id func(uint64), number func(int64)) {
	s.values.(*generator.Positions).Visit(now, position, number)
	number(int64(s.short.Load()))
	id(s.above)
}

// Clone is a copy of a Strict that goes on by itself, without calls to others. next is the Clone of the present term,
// if that is term.
func (s *Strict) Clone(term, next counter.Issuer) *Strict {
	c := &Strict{c: s.c, slot: s.slot, tally: &tally{all: s.all}, last: s.last, row: s.row, batches: s.row.batches()}
	st := *s.standing.Load()
	if st.term != nil && counter.Issuer(st.term) == term {
		st.term = next.(*Sequence)
	}
	c.standing.Store(&st)
	return c
}

// Visit shows all that decides how a Strict goes on: the leader's address, whether this daemon leads, and the largest
// value of past terms.
func (s *Strict) Visit(show func(address string, leads bool, last uint64)) {
	st := s.standing.Load()
	show(st.address, st.term != nil, s.last)
}

// Clone is a copy that goes on by itself.
func (b *Batches) Clone() *Batches {
	c := *b
	c.noted, c.open = make(map[request]*batch, len(b.noted)), nil
	c.sent = b.sent.clone()
	for _, o := range b.open {
		c.open = append(c.open, o.clone())
	}
	for r, in := range b.noted {
		if in == b.sent {
			c.noted[r] = c.sent
			continue
		}
		c.noted[r] = c.open[slices.Index(b.open, in)]
	}
	c.ready, c.older = maps.Clone(b.ready), maps.Clone(b.older)
	return &c
}

func (o *batch) clone() *batch {
	if o == nil {
		return nil
	}
	c := *o
	c.wants, c.requests = maps.Clone(o.wants), slices.Clone(o.requests)
	return &c
}

// Visit shows each request by its moment: with a batch that is open (0) or sent (1), or with its first value; and the
// values that others must be above.
func (b *Batches) Visit(show func(moment int64, value uint64), above func(uint64)) {
	var room [8]request
	for _, r := range sorted(b.noted, room[:0]) {
		sent := uint64(0)
		if b.noted[r] == b.sent {
			sent = 1
		}
		show(r.moment, sent)
	}
	for _, answers := range []map[request]answer{b.ready, b.older} {
		for _, r := range sorted(answers, room[:0]) {
			show(r.moment, answers[r].run.First)
		}
	}
	if above(b.last); b.sent != nil {
		above(b.sent.above)
	}
}

// sorted appends the keys of a map to all.
func sorted[V any](of map[request]V, all []request) []request {
	for r := range of {
		all = append(all, r)
	}
	slices.SortFunc(all, func(x, y request) int { return cmp.Compare(x.moment, y.moment) })
	return all
}
