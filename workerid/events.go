package workerid

import "time"

// A Moment is the present on two clocks.
type Moment struct {
	Mono time.Duration // monotonic, from any start; for timers
	ID   int64         // the id clock, Unix ms; compared with windows. It may be set
	// the latest Unix ms that ids were issued from; matters to even beats only
	Position int64
}

// An Event tells a Machine what happened.
type Event interface{ event() }

// The events. Each Acquire, Extend, Seal and Release gets exactly one answer.
type (
	// Tick: the Deadline has come.
	Tick struct{}
	// Acquired answers Acquire.
	Acquired struct {
		Lane  int
		Grant Grant
		Err   error
	}
	// Extended answers Extend: one result for each grant, in order, or one error for all.
	Extended struct {
		Results []Result
		Err     error
	}
	// SealedAt answers Seal with the generator's last position.
	SealedAt struct {
		Lane int
		Last int64
	}
	// Released answers Release.
	Released struct {
		Lane int
		Err  error
	}
	// Stop: the daemon stops. The Machine seals all lanes and gives the leases back, then emits
	// Finished.
	Stop struct{}
)

func (Tick) event()     {}
func (Acquired) event() {}
func (Extended) event() {}
func (SealedAt) event() {}
func (Released) event() {}
func (Stop) event()     {}

// An Effect is what a Machine wants done. The Keeper carries out the effects of one Step in order. It
// only begins Acquire, Extend and Release; their answers arrive later, as events.
type Effect interface{ effect() }

type (
	// Acquire asks the store for a worker id.
	Acquire struct {
		Lane    int
		Request Request
	}
	// Extend asks the store to extend these grants; at most one is unanswered at a time.
	Extend struct{ Held []Grant }
	// Publish makes a generator for the grant and puts it into the lane, replacing the old one.
	Publish struct {
		Lane  int
		Grant Grant
	}
	// Lengthen extends the window of the lane's generator. The store has already recorded the new end.
	Lengthen struct {
		Lane   int
		Lo, Hi int64
	}
	// Seal stops the lane's generator for good; SealedAt follows.
	Seal struct{ Lane int }
	// Release gives a grant back to the store. It is sent once, whatever the answer.
	Release struct {
		Lane  int
		Grant Grant
		Last  int64
	}
	// Changed is for the log: a lane went From one state To another, or has a new Reason in the
	// same state.
	Changed struct {
		Lane     int
		Grant    Grant // zero while there is none
		From, To State
		Reason   string
		// until ids can be issued, if the lane waits only for the clock, or the store told it how long
		// newcomers wait; otherwise 0
		Wait time.Duration
	}
	// Finished is the last effect after Stop: all is sealed and given back.
	Finished struct{}
)

func (Acquire) effect()  {}
func (Extend) effect()   {}
func (Publish) effect()  {}
func (Lengthen) effect() {}
func (Seal) effect()     {}
func (Release) effect()  {}
func (Changed) effect()  {}
func (Finished) effect() {}
