package workerid

import (
	"context"
	"errors"
	"time"
)

// An Outcome is what a call of the store came to, for one lane.
type Outcome int

// The outcomes.
const (
	OK         Outcome = iota
	Lost               // of an extension: the lease is somebody else's now, or its window is shared
	NoneFree           // of an acquisition: every worker id is taken
	Failed             // any other error: nothing to reach, a refusal, a grant that too few replicas have
	Unanswered         // no answer in time: it may have been carried out
	NumOutcomes
)

func (o Outcome) String() string {
	return [...]string{"ok", "lost", "none_free", "failed", "unanswered"}[o]
}

func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrLost), errors.Is(err, ErrShared):
		return Lost
	case errors.Is(err, ErrNoID):
		return NoneFree
	case errors.Is(err, context.DeadlineExceeded):
		return Unanswered
	}
	return Failed
}

// Counts is what a Keeper has asked of its store so far, and what came of it.
type Counts struct {
	Acquisitions [NumOutcomes]uint64 // one for each attempt; none was Lost
	Extensions   [NumOutcomes]uint64 // one for each lane that was to be extended; none was NoneFree
	Calls        uint64              // acquisitions and extensions, all lanes' of one time being one
	Took         time.Duration       // all Calls together, the unanswered ones as long as they were waited for
	LastExtended time.Time           // when an extension last succeeded, by the wall clock; zero: none did yet
}

// Counts counts the calls that have ended.
func (k *Keeper) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts
}

// count adds a call that has ended. lanes is how many it was for.
func (k *Keeper) count(e Event, lanes int, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &k.counts
	switch e := e.(type) {
	case Acquired:
		c.Acquisitions[outcomeOf(e.Err)]++
	case Extended:
		if e.Err != nil {
			c.Extensions[outcomeOf(e.Err)] += uint64(lanes)
		}
		for _, r := range e.Results {
			o := outcomeOf(r.Err)
			if c.Extensions[o]++; o == OK {
				c.LastExtended = time.Now()
			}
		}
	default:
		return
	}
	c.Calls++
	c.Took += took
}
