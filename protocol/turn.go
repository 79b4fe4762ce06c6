package protocol

import (
	"math/bits"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A Turn is one Feed of a session, in any grammar: the reply so far, and what to count.
type Turn struct {
	Now     int64  // current time, Unix ms
	Out     []byte // the reply so far
	n       [numCounters]uint32
	touched uint32 // bit i: n[i] is not 0
	singles int32  // number of ids requested one at a time
	// Remote says what happens to requests for ids that another server issues.
	Remote Remote
	Enough bool   // a request took so long that Feed ends with ErrEnough, however short its reply is
	kept   uint32 // if not 0, the moment of the present request; see Keep
	moment int64  // of all other requests, see id.Punctual; 0 = no request has asked for it
}

// Remote says what a Turn does about ids that another server issues.
type Remote uint8

const (
	Fetch    Remote = iota // wait until they are fetched
	Redirect               // return the id.Elsewhere: the client can go there
	Drop                   // return id.ErrWait and fetch nothing: this request will not come again
)

// Add counts something; Count passes it on. A negative n takes back what this turn has counted: a
// command that must wait is counted when it is answered.
func (t *Turn) Add(c Counter, n int) {
	t.n[c] += uint32(n)
	t.touched |= 1 << c
}

// Counted returns what this turn has counted.
func (t *Turn) Counted(c Counter) int { return int(t.n[c]) }

// Count adds the turn's counts to to. So a pipeline of commands costs a handful of atomic
// additions, not one per command.
func (t *Turn) Count(to *Counters) {
	for m := t.touched; m != 0; m &= m - 1 {
		c := bits.TrailingZeros32(m)
		to.n[c].Add(uint64(t.n[c]))
	}
}

// Ended returns what Feed does after an error, or after none.
func (t *Turn) Ended(err error) error {
	if err == nil && t.Enough {
		return ErrEnough
	}
	return err
}

// Say appends s to the reply.
func (t *Turn) Say(s string) { t.Out = append(t.Out, s...) }

// Issue gets one id for a key and counts it. After id.ErrWait nothing is counted. The text of any
// other error is for the client.
func (t *Turn) Issue(h Handler, key []byte) (id.Run, error) {
	t.singles++
	from := h.Source(key)
	run, err := from.Mint(id.At(t.Now), 1, t.singles > SingleGets)
	if err != nil {
		run, err = t.insist(from, 1, false, err)
	}
	t.issued(1, err)
	return run, err
}

// Mint gets ids from a source, see id.Source, and counts nothing.
func (t *Turn) Mint(from id.Source, n int, bulk bool) (id.Run, error) {
	run, err := from.Mint(id.At(t.Now), n, bulk)
	if err != nil {
		return t.insist(from, n, false, err)
	}
	return run, nil
}

// Reserve gets n numbers, all or none, and counts them. Errors are those of Issue.
func (t *Turn) Reserve(from id.Reserver, n int) (id.Run, error) {
	run, err := from.Reserve(id.At(t.Now), n)
	if err != nil {
		run, err = t.insist(from, n, true, err)
	}
	t.issued(n, err)
	return run, err
}

// insist asks a source again that has refused, if it wants to know the request's moment.
func (t *Turn) insist(from id.Source, n int, whole bool, err error) (run id.Run, _ error) {
	if err != id.ErrMoment {
		return run, err
	}
	p := from.(id.Punctual)
	if t.moment == 0 {
		t.moment = (p.Moment() + 1<<momentShift - 1) >> momentShift << momentShift
	}
	moment := t.moment
	if t.kept != 0 { // it is the latest one with these bits
		moment -= (moment - int64(t.kept)<<momentShift) & (Kept<<momentShift - 1)
	}
	when := id.When{Now: t.Now, Moment: moment, Redirect: t.Remote != Fetch}
	if whole {
		run, err = p.Reserve(when, n)
	} else {
		run, err = p.Mint(when, n, false)
	}
	if _, ok := err.(id.Elsewhere); ok && t.Remote == Drop {
		err = id.ErrWait
	}
	return run, err
}

// A session that waits keeps the moment of its request in 32 bits, of which the top one is set, because
// every idle connection has a session. So moments are rounded up to 64 ns, and one that is kept for
// longer than 137 s becomes a later one: its request is then a new one to the source, no more.
const (
	momentShift = 6
	Kept        = 1 << 31
)

// Keep returns the moment of the present request, after id.ErrWait: at least Kept, or 0 if its source
// asked for none.
func (t *Turn) Keep() uint32 {
	if t.kept != 0 || t.moment == 0 {
		return t.kept
	}
	return uint32(t.moment>>momentShift) | Kept
}

// Recall makes a moment that Keep has returned that of the present request, until Recall(0): other
// requests may have arrived later.
func (t *Turn) Recall(kept uint32) { t.kept = kept }

// issued counts n ids, or the error that came instead of them.
func (t *Turn) issued(n int, err error) {
	switch {
	case err == nil:
		t.Add(IDs, n)
	case err != id.ErrWait:
		t.Add(Refused, 1)
	}
}

// IsClients reports whether an error of a Source is the client's fault: asking again, or another server,
// does not help.
func IsClients(err error) bool {
	switch err.(type) {
	case id.UnknownName, id.NotPermitted:
		return true
	}
	return false
}
