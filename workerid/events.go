package workerid

import "time"

// A Moment is the present on two clocks.
type Moment struct {
	Mono time.Duration // monotonic, from any start: what timers go by
	ID   int64         // the id clock, Unix ms: what windows are compared with. It may be set
}

// An Event is what a Machine is told.
type Event interface{ event() }

// The events. Those that answer an effect come once for each.
type (
	// Tick: the Deadline has come.
	Tick struct{}
	// Acquired answers Acquire.
	Acquired struct {
		Lane  int
		Grant Grant
		Err   error
	}
	// Extended answers Extend: a result for each grant, in order, or an error for all.
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
	// Stop: the daemon stops. Everything is sealed and given back, until Finished.
	Stop struct{}
)

func (Tick) event()     {}
func (Acquired) event() {}
func (Extended) event() {}
func (SealedAt) event() {}
func (Released) event() {}
func (Stop) event()     {}

// An Effect is what a Machine wants done. The effects of one Step are carried out in order; Acquire, Extend and Release are only begun
// and their answers come as events, whenever they come.
type Effect interface{ effect() }

// The effects.
type (
	// Acquire asks the store for a worker id.
	Acquire struct {
		Lane    int
		Request Request
	}
	// Extend asks the store to extend these grants; at most one is unanswered at a time.
	Extend struct{ Held []Grant }
	// Publish makes a generator for the grant and puts it into the lane in place of the one there.
	Publish struct {
		Lane  int
		Grant Grant
	}
	// Lengthen extends the window of the lane's generator. The store has it recorded.
	Lengthen struct {
		Lane   int
		Lo, Hi int64
	}
	// Seal ends the lane's generator; SealedAt follows.
	Seal struct{ Lane int }
	// Release gives a grant back to the store. It is sent once, whatever comes of it.
	Release struct {
		Lane  int
		Grant Grant
		Last  int64
	}
	// Changed is for the log: a lane went From one state To another, or has a new Reason for being in the same.
	Changed struct {
		Lane     int
		Grant    Grant // zero while there is none
		From, To State
		Reason   string
		Wait     time.Duration // until ids can be issued, if the lane waits for nothing but the clock; else 0
	}
	// Finished ends a Machine that was told to Stop.
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
