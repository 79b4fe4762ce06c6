package explore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
)

// A request is one of a client that waits, or is held.
type request struct {
	number  int
	at      int   // which daemon
	begin   int64 // in the order of events
	above   uint64
	moment  int64
	resumes int64 // it is held until then; 0 = it waits for the daemon
	until   int64 // what it has read
	term    uint64
}

// arrives is a client's request at a daemon.
func (w *strict) arrives(i int, c Choice) {
	if c.Kind == Put {
		w.asked = w.after(i)
		return
	}
	if w.asked = w.now + askEvery; w.turn%2 == 0 {
		w.asked = w.now + askAgain
	}
	w.turn++
	m := w.members[i]
	w.moves++
	r := request{number: w.turn, at: i, begin: w.moves, above: w.largest, moment: w.clock(i, w.now)}
	switch {
	case m.m == nil: // connection refused
		return
	case m.frozen > w.now: // it is read then
		r.moment, r.resumes = m.began, m.frozen
	case c.Kind == Held || c.Kind == Between:
		if r.resumes = w.now + held; c.Preemption > 0 {
			r.resumes = w.after(i)
		}
		if c.Kind == Between {
			r.until = max(w.limit(i), 1)
			if m.line != nil {
				r.term = m.line.term.Number
			}
		}
		if c.Arg == 1 { // the whole process
			w.own(i).frozen = r.resumes
		}
	default:
		w.own(i)
		w.serve(r)
		w.settle(i)
		return
	}
	w.asks = append(w.asks, r)
}

// resume lets a request go on that was held.
func (w *strict) resume(n int) {
	r := w.asks[n]
	w.asks = slices.Delete(slices.Clone(w.asks), n, n+1)
	r.resumes = 0
	if r.moment == 0 {
		r.moment = w.clock(r.at, w.now)
	}
	m := w.own(r.at)
	if m.line != nil && m.line.term.Number == r.term {
		w.hub.override = r.until
	}
	r.until = 0
	w.serve(r)
	w.hub.override = 0
	w.settle(r.at)
}

// limit is up to when requests get values.
func (w *strict) limit(i int) int64 {
	m := w.members[i]
	until := m.m.Until(w.hub.group)
	switch {
	case w.mutant == noLeaseCheck:
		return 1 << 62
	case until == 0 && m.stall == 0:
	case m.stall > 0:
		until = max(until, m.before)
	case w.mutant == fullTTL:
		until += int64(leader.TTL) / 10
	case w.mutant == timedFromAnswer:
		until += m.late
	}
	return until
}

// serve answers a request, or lets it wait.
func (w *strict) serve(r request) {
	m := w.members[r.at]
	if run, err, ok := m.batches.Collect(r.moment, 1); ok && err == nil {
		w.answered(r, run.First)
		return
	}
	if !m.batches.Asked(r.moment, 1) {
		run, err := m.s.Mint(id.When{Moment: r.moment, Redirect: true}, 1, false)
		there := id.Elsewhere{}
		switch {
		case err == nil:
			w.answered(r, run.First)
			return
		case errors.As(err, &there) && there.Address != "":
			m.batches.Ask(r.moment, 1)
			w.callLeader(m, there.Address)
			if run, err, ok := m.batches.Collect(r.moment, 1); ok && err == nil {
				w.answered(r, run.First)
				return
			}
		}
	}
	w.asks = append(w.asks, r)
}

// settle lets a daemon's keeper look, and its requests ask again, until nothing comes of it.
func (w *strict) settle(i int) {
	for range 4 {
		w.keep(w.members[i])
		waiting := w.asks
		w.asks = nil
		before := w.moves
		for _, r := range waiting {
			if r.at == i && r.resumes == 0 && w.members[i].m != nil {
				w.serve(r)
			} else {
				w.asks = append(w.asks, r)
			}
		}
		if w.moves == before {
			return
		}
	}
}

// answered checks a value that a client gets.
func (w *strict) answered(r request, v uint64) {
	w.moves++
	w.history = &answeredOp{w.history, r.number, r.begin, w.moves, v}
	switch {
	case v <= r.above:
		w.wrong = fmt.Sprintf("%d came to a request that was made after %d was answered", v, r.above)
	case slices.Contains(w.issued, v):
		w.wrong = fmt.Sprintf("%d was issued twice", v)
	case w.hub.timed != nil:
		w.timely(r, v)
	case v != w.record.Ceil(v):
		w.wrong = fmt.Sprintf("%d is no value of the sequence", v)
	}
	if w.largest = max(w.largest, v); len(w.issued) >= max(12, int(w.record.Batch)) {
		w.issued = w.issued[1:]
	}
	w.issued = append(w.issued[:len(w.issued):len(w.issued)], v)
}

// callLeader asks the leader for values, unless that is under way.
func (w *strict) callLeader(m *member, address string) {
	if m.forward.serial > 0 || m.forward.until > w.now {
		return
	}
	n := m.batches.Send(0)
	if n == 0 {
		return
	}
	if m.surplus > 0 && n == 1 && w.mutant == surplus {
		last := m.surplus
		m.surplus = 0
		_ = m.batches.Answer(w.clock(m.i, w.now), last, nil)
		return
	}
	for j, x := range w.members {
		if x.address() == address {
			w.serial++
			m.forward = pending{serial: w.serial, until: w.now + callWait, n: n}
			w.send(msg{kind: toForward, from: m.i, to: j, serial: w.serial, life: m.life, n: n})
			return
		}
	}
	_ = m.batches.Answer(w.clock(m.i, w.now), 0, errNoValue)
}
