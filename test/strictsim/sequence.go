package strictsim

import (
	"errors"
	"log/slog"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// A name is a sequence as etcd has it.
type name struct {
	group  int
	record counter.Record
	seen   map[uint64]bool // issued values
}

// issued checks values when they are issued.
func (w *World) issued(n *name, first, stride uint64, got int) {
	for i := range got {
		v := first + uint64(i)*stride
		switch {
		case n.seen[v]:
			w.fail("%s: %d was issued twice", n.record.Name, v)
		case !n.record.Timed() && v != n.record.Ceil(v):
			w.fail("%s: %d was issued, which is no value of %+v", n.record.Name, v, n.record.Definition)
		}
		n.seen[v] = true
		w.Values++
	}
}

// A sequence is what a process has of a name.
type sequence struct {
	*issuer.Strict
	p    *process
	n    *name
	line *line         // of the present term, or the last one
	tail counter.Block // for ResumeBlock: what was left
	late counter.Block // for LateAppended: what was granted last, perhaps without an answer
	last int64         // for UnsealAfterDemote: until, of the last term
}

// A line is a sequence in one term, driven as a counter.Keeper does.
type line struct {
	s       *sequence
	term    leader.Term
	to      counter.Issuer
	m       *counter.Machine
	rung    bool
	calling bool
	block   counter.Block // the newest
	sealed  bool
	ended   func() // the term is over: what to call when that is done
}

const (
	keeperTimeout = 5 * sec
	returnTimeout = 5 * sec
)

func newSequence(p *process, n *name) *sequence {
	s := &sequence{p: p, n: n}
	s.issue(n.record.Definition)
	return s
}

func (s *sequence) issue(d counter.Definition) {
	s.Strict = issuer.NewStrict(issuer.StrictConfig{
		Definition: d, MaxWait: time.Duration(s.p.w.patience),
		Moment: s.p.host.clock, Status: func() counter.Status { return counter.Status{} },
		Ring: func() { s.line.ring() }, Wake: s.p.wake, Forward: forwarder{s}, Clock: s.p.clockOf(d),
	})
}

// begin begins a term.
func (s *sequence) begin(t leader.Term) {
	w, r := s.p.w, s.n.record
	if w.mutant == IgnoreStep && t.Number > 1 {
		r.Step, r.Offset = 1, 1
		s.issue(r.Definition)
	}
	l, before := &line{s: s, term: t}, s.line
	s.line = l
	l.to = s.Lead(func() int64 {
		s.p.pause()
		until := s.p.until(t.Group)
		s.p.pause()
		if w.mutant == NoLeaseCheck {
			until = 1 << 62
		}
		return until
	})
	to := l.to
	if w.mutant == NoSeal {
		to = unsealed{to, l}
	}
	l.m = counter.NewMachine(r, to, r.Batch, slog.New(slog.DiscardHandler))
	switch {
	case w.mutant == ResumeBlock && s.tail.Hi > 0:
		l.to.Append(s.tail.Lo, s.tail.Hi)
	case w.mutant == LateAppended && before != nil && before.block != s.late:
		l.to.Append(s.late.Lo, s.late.Hi)
	case w.mutant == AnswerBeforeReserve:
		l.to.Append(r.Next, r.Next+9*r.Step)
	}
}

// end ends the term: nothing more is issued, and what is left is given back.
func (s *sequence) end(ended func()) {
	l := s.line
	if s.p.w.mutant != NoSeal {
		s.HandOver()
	}
	s.p.pause()
	if l.calling { // its answer goes on
		l.ended = ended
		return
	}
	l.finish(ended)
}

// unsealed is an issuer that goes on.
type unsealed struct {
	counter.Issuer
	l *line
}

func (u unsealed) Seal() (next, rest uint64) {
	rest, _ = u.Left()
	return u.l.block.Hi - (rest-1)*u.l.s.n.record.Step, rest
}

// finish seals a line, if that was not done, and gives back.
func (l *line) finish(ended func()) {
	w, p := l.s.p.w, l.s.p
	if l.sealed {
		ended()
		return
	}
	l.sealed = true
	b, next, ok := l.m.Stop()
	if !ok {
		ended()
		return
	}
	if w.mutant == ResumeBlock {
		l.s.tail = counter.Block{Lo: next, Hi: b.Hi}
		ended()
		return
	}
	p.pause()
	exec := func() { w.board.giveBack(l.s.n, l.term, b, next) }
	if w.mutant == ReturnAfterTerm || w.chance(8) { // the network repeats it
		w.after(w.between(0, 5*sec), exec)
	}
	p.call(nil, returnTimeout, exec, func(bool) { ended() })
}

// ring makes the keeper look at the line.
func (l *line) ring() {
	if l != nil && !l.rung {
		l.rung = true
		l.s.p.after(0, l.keep)
	}
}

// keep reserves a block, if one is needed.
func (l *line) keep() {
	l.rung = false
	s, p, w := l.s, l.s.p, l.s.p.w
	if l.calling || l.sealed {
		return
	}
	n := l.m.Need(p.time())
	if n == 0 {
		return
	}
	span, timed := l.m.Span(n)
	l.calling = true
	p.pause()
	var b counter.Block
	var err error
	if w.mutant == ReserveAfterUse {
		r := s.n.record
		b, err := r.Reserve(n, "not yet")
		l.m.Answer(p.time(), b, err)
	}
	exec := func() {
		if timed {
			b, err = w.board.advance(s.n, l.term, span)
		} else {
			b, err = w.board.reserve(s.n, l.term, n)
		}
		if err == nil {
			s.late = b
		}
	}
	p.call(nil, keeperTimeout, exec, func(ok bool) {
		p.pause()
		l.calling = false
		if !ok {
			b, err = counter.Block{}, errors.New("no answer")
		}
		if err == nil {
			l.block = b
		}
		if w.mutant != ReserveAfterUse {
			if wait := l.m.Answer(p.time(), b, err); wait > 0 {
				p.after(int64(wait)+ms, l.ring)
			}
		}
		if l.ended != nil {
			l.finish(l.ended)
			return
		}
		l.ring()
	})
}

func (p *process) time() time.Time { return time.Unix(0, p.host.clock()) }

// note keeps the present untils, for UnsealAfterDemote.
func (p *process) note() {
	for _, s := range p.sequences {
		s.last = p.m.Until(s.n.group)
	}
}

// releaseFailed is what the mutant UnsealAfterDemote does when nobody has answered that the groups of c
// are handed over: it leads on as before.
func (p *process) releaseFailed(c leader.Change) {
	if p.w.mutant != UnsealAfterDemote {
		return
	}
	for _, s := range p.sequences {
		if rev, ok := c.Leaders[s.n.group]; ok && s.line != nil && s.line.term.Fence == rev {
			until := s.last
			p.stall = until
			p.afterOn(&p.thread, until-p.host.clock()+ms, p.drive)
			s.begin(s.line.term)
			s.line.to = s.Lead(func() int64 { return until })
			s.line.m = counter.NewMachine(s.n.record, s.line.to, s.n.record.Batch, slog.New(slog.DiscardHandler))
		}
	}
}
