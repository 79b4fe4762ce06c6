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
// wanted, and what is left is dropped. A request is known by its moment (id.Punctual) and by how many
// values it wants. Two that have both in common may be taken for each other: either may have the values,
// because both had arrived by then, and the other one asks again. By the moment alone, one would be given
// too many or too few, and they would be lost: a gap.
type Batches struct {
	step uint64
	most int // values in a batch

	noted map[request]*batch // where the requests are that have no answer
	open  []*batch           // not sent, the oldest first; only the last one grows
	sent  *batch             // nil = no call is under way
	one   bool               // a batch has one request, because the sequence ends soon
	last  uint64             // the largest value that an answer had

	// Answers that no client has asked for yet. Those of clients that went away stay, so they are dropped
	// after keepAnswers to twice that.
	ready, older map[request]answer
	turned       int64 // when ready was begun
}

// A request is what a batch knows it by.
type request struct {
	moment int64
	n      int // values in a row
}

// A batch is some requests for at most most values together.
type batch struct {
	wants    map[request]bool
	requests []request // in the order in which they came; some may have been forgotten
	total    int       // values that the call asks for
	above    uint64    // each of them must be larger: this one was there before the call
}

// An answer is what a request got.
type answer struct {
	run id.Run
	err error
}

const keepAnswers = 10e9 // ns

// NewBatches makes Batches for a sequence of this step, of which the leader is asked for most values at once.
func NewBatches(step uint64, most int) *Batches {
	return &Batches{step: step, most: most, noted: map[request]*batch{}, ready: map[request]answer{}}
}

// Ask answers a request for n values in a row, 1 to most. If it has no answer, it is noted,
// once, and ok is false: ask again.
func (b *Batches) Ask(moment int64, n int) (run id.Run, err error, ok bool) {
	if run, err, ok = b.Collect(moment, n); !ok && b.noted[request{moment, n}] == nil {
		b.note(request{moment, n})
	}
	return run, err, ok
}

// Collect answers a request like Ask, but does not note it.
func (b *Batches) Collect(moment int64, n int) (run id.Run, err error, ok bool) {
	r := request{moment, n}
	for _, answers := range [...]map[request]answer{b.ready, b.older} {
		if a, found := answers[r]; found {
			delete(answers, r)
			return a.run, a.err, true
		}
	}
	return run, nil, false
}

// Asked reports whether a request is one that the leader was asked for, in the call under way.
func (b *Batches) Asked(moment int64, n int) bool {
	return b.sent != nil && b.noted[request{moment, n}] == b.sent
}

// Due reports whether there are answers that were not collected, or may come.
func (b *Batches) Due() bool { return b.sent != nil || len(b.ready)+len(b.older) > 0 }

func (b *Batches) note(r request) {
	last := len(b.open) - 1
	if last < 0 || b.one || b.open[last].total+r.n > b.most {
		b.open = append(b.open, &batch{wants: map[request]bool{}})
		last++
	}
	o := b.open[last]
	o.wants[r] = true
	o.requests = append(o.requests, r)
	o.total += r.n
	b.noted[r] = o
}

// Forget makes as if a request had not asked. If it was sent, its values are lost.
func (b *Batches) Forget(moment int64, n int) {
	r := request{moment, n}
	o := b.noted[r]
	if o == nil {
		return
	}
	if o != b.sent {
		o.total -= n
	}
	delete(o.wants, r)
	delete(b.noted, r)
}

// Clear forgets the requests that the leader was not asked for yet.
func (b *Batches) Clear() {
	for r, in := range b.noted {
		if in != b.sent {
			delete(b.noted, r)
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
		b.older, b.ready, b.turned = b.ready, map[request]answer{}, now
	}
	final := isFinal(err)
	if final && len(o.wants) > 1 { // one of them may still get values
		b.one, final = true, false
	}
	for _, r := range o.requests {
		if !o.wants[r] { // it was forgotten
			continue
		}
		delete(o.wants, r)
		delete(b.noted, r)
		switch {
		case err == nil:
			b.ready[r] = answer{run: id.Run{First: next, Stride: b.step, N: r.n}}
			next += uint64(r.n) * b.step
		case final, fallen:
			b.ready[r] = answer{err: err}
		}
	}
	if final && o.total == 1 { // no client gets any
		for r := range b.noted {
			b.ready[r] = answer{err: err}
		}
		b.Clear()
	}
	return err
}

// A setBack is the error for values that this daemon has passed already, although they must rise. So the
// counter store has forgotten something, and others may have had these values.
type setBack struct{ first, above uint64 }

func (s setBack) Error() string {
	return fmt.Sprintf("%d was granted, and %d was issued before: the counter store was wiped or set back. `katsubushi "+
		"name raise` it above every value that was issued", s.first, s.above)
}

func isFinal(err error) bool {
	final, ok := err.(interface{ Final() bool })
	return ok && final.Final()
}
