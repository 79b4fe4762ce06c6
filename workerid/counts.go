package workerid

import (
	"context"
	"errors"
	"time"
)

// An Outcome is the result of a store call for one lane.
type Outcome int

const (
	OK          Outcome = iota // the store did what it was asked
	Lost                       // of an extension: another holder has the lease now, or uses the same window
	NoneFree                   // of an acquisition: every worker id is taken
	Failed                     // any other error: store unreachable, a refusal, a grant on too few replicas
	Unanswered                 // no answer in time: the store may have carried it out
	NoneYet                    // of an acquisition: the store may have forgotten leases, and newcomers wait
	NumOutcomes                // how many outcomes there are
)

func (o Outcome) String() string {
	return [...]string{"ok", "lost", "none_free", "failed", "unanswered", "none_yet"}[o]
}

func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrLost), errors.Is(err, ErrShared):
		return Lost
	case errors.Is(err, ErrNoneYet):
		return NoneYet
	case errors.Is(err, ErrNoID):
		return NoneFree
	case errors.Is(err, context.DeadlineExceeded):
		return Unanswered
	}
	return Failed
}

// Counts counts a Keeper's store calls and their results.
type Counts struct {
	Acquisitions [NumOutcomes]uint64 // one for each attempt; never Lost
	Extensions   [NumOutcomes]uint64 // one for each lane in an extension; never NoneFree or NoneYet
	Calls        uint64              // acquisitions and extensions; an extension of several lanes counts once
	Took         time.Duration       // total of all Calls; for unanswered ones, until the timeout
	LastExtended time.Time           // wall-clock time of the last successful extension; zero = none yet
}

// Counts returns the counts of the calls that have ended.
func (k *Keeper) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts
}

// count adds a call that has ended and was for this many lanes.
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
