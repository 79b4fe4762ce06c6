package issuer

import (
	"fmt"

	"github.com/katsubushi/katsubushi/v3/id"
)

// Batches collects what waiting requests want of a leader on another host, so that one call to the
// leader serves many of them. It does no I/O and reads no clock: a Strict drives it, or a simulation.
// Only one goroutine at a time may call its methods.
//
// Values are in strict order only if the leader is asked after every request that it serves has arrived.
// So a batch is closed when it is sent, its values go only to the requests in it, each as many as it
// wanted, and what is left is dropped. A request is known by its moment (id.Punctual). If two of one
// moment are taken for each other, no harm is done: both had arrived by then.
type Batches struct {
	step uint64

	noted map[int64]*batch // where the requests are that have no answer, by moment
	open  []*batch         // not sent, the oldest first; only the last one grows
	sent  *batch           // nil = no call is under way
	one   bool             // a batch has one request, because the sequence ends soon
	last  uint64           // the largest value that an answer had

	// Answers that nobody has asked for yet. Those of clients that went away stay, so they are dropped
	// after keepAnswers to twice that.
	ready, older map[int64]answer
	turned       int64 // when ready was begun
}

// A batch is some requests for at most id.MaxReserve values together.
type batch struct {
	wants   map[int64]int // how many, by moment
	moments []int64       // in the order in which they came; some may have been forgotten
	total   int           // values that the call asks for
	above   uint64        // each of them must be larger: this one was there before the call
}

// An answer is what a request got.
type answer struct {
	run id.Run
	err error
}

const keepAnswers = 10e9 // ns

// NewBatches makes Batches for a sequence of this step.
func NewBatches(step uint64) *Batches {
	return &Batches{step: step, noted: map[int64]*batch{}, ready: map[int64]answer{}}
}

// Ask answers a request for n values in a row, 1 to id.MaxReserve. If it has no answer, it is noted,
// once, and ok is false: ask again.
func (b *Batches) Ask(moment int64, n int) (run id.Run, err error, ok bool) {
	if run, err, ok = b.Collect(moment, n); !ok && b.noted[moment] == nil {
		b.note(moment, n)
	}
	return run, err, ok
}

// Collect answers a request like Ask, but does not note it.
func (b *Batches) Collect(moment int64, n int) (run id.Run, err error, ok bool) {
	for _, answers := range [...]map[int64]answer{b.ready, b.older} {
		if a, found := answers[moment]; found {
			delete(answers, moment)
			if a.err != nil || a.run.N == n {
				return a.run, a.err, true
			}
		}
	}
	return run, nil, false
}

// Asked reports whether a request is one that the leader was asked for, in the call under way.
func (b *Batches) Asked(moment int64) bool { return b.sent != nil && b.noted[moment] == b.sent }

// Due reports whether there are answers that were not collected, or may come.
func (b *Batches) Due() bool { return b.sent != nil || len(b.ready)+len(b.older) > 0 }

func (b *Batches) note(moment int64, n int) {
	last := len(b.open) - 1
	if last < 0 || b.one || b.open[last].total+n > id.MaxReserve {
		b.open = append(b.open, &batch{wants: map[int64]int{}})
		last++
	}
	o := b.open[last]
	o.wants[moment] = n
	o.moments = append(o.moments, moment)
	o.total += n
	b.noted[moment] = o
}

// Forget makes as if a request had not asked. If it was sent, its values are lost.
func (b *Batches) Forget(moment int64) {
	o := b.noted[moment]
	if o == nil {
		return
	}
	if o != b.sent {
		o.total -= o.wants[moment]
	}
	delete(o.wants, moment)
	delete(b.noted, moment)
}

// Clear forgets the requests that the leader was not asked for yet.
func (b *Batches) Clear() {
	for moment := range b.noted {
		if !b.Asked(moment) {
			delete(b.noted, moment)
		}
	}
	b.open = nil
}

// Send closes a batch and returns how many values to ask the leader for, in one call; pass the result to
// Answer. 0 = there is nothing to ask for, or a call is under way. issued is the largest value that this
// daemon issued itself.
func (b *Batches) Send(issued uint64) int {
	for b.sent == nil && len(b.open) > 0 {
		if b.open[0].total > 0 {
			b.sent = b.open[0]
		}
		b.open = b.open[1:]
		if b.sent != nil {
			b.sent.above = max(issued, b.last)
			return b.sent.total
		}
	}
	return 0
}

// Answer takes the result of the call under way: the last of the values, or an error. Requests whose call
// has failed are to ask again, unless the error says that it is Final. Values that do not rise are not
// passed on: it returns a setBack then, and the requests get that. now is in ns.
func (b *Batches) Answer(now int64, last uint64, err error) error {
	o := b.sent
	b.sent = nil
	next := last - uint64(o.total-1)*b.step
	fallen := err == nil && next <= o.above
	if fallen {
		err = setBack{next, o.above}
	} else if err == nil {
		b.last = last
	}
	if now-b.turned >= keepAnswers {
		b.older, b.ready, b.turned = b.ready, map[int64]answer{}, now
	}
	final := isFinal(err)
	if final && len(o.wants) > 1 { // one of them may still get values
		b.one, final = true, false
	}
	for _, moment := range o.moments {
		n, ok := o.wants[moment]
		if !ok { // it was forgotten
			continue
		}
		delete(o.wants, moment)
		delete(b.noted, moment)
		switch {
		case err == nil:
			b.ready[moment] = answer{run: id.Run{First: next, Stride: b.step, N: n}}
			next += uint64(n) * b.step
		case final, fallen:
			b.ready[moment] = answer{err: err}
		}
	}
	if final && o.total == 1 { // nobody gets any
		for moment := range b.noted {
			b.ready[moment] = answer{err: err}
		}
		b.Clear()
	}
	return err
}

// A setBack is the error for values that this daemon has passed already, although they must rise. So the
// counter store has forgotten something, and others may have had these values.
type setBack struct{ first, above uint64 }

func (s setBack) Error() string {
	return fmt.Sprintf("%d was granted, and %d was issued before: the counter store was wiped or set back. `katsubushi generator raise` it above every value that was issued", s.first, s.above)
}

func isFinal(err error) bool {
	final, ok := err.(interface{ Final() bool })
	return ok && final.Final()
}
