package id

import "errors"

// A Punctual is a Source that issues in strict order: if the answer to one request arrived before
// another request was made, on whatever hosts, its ids are smaller. So it must know for each request a
// moment at which the request had arrived, and compares that with the end of its own authority.
type Punctual interface {
	// After ErrWait ask again with the same Moment and n: they identify the request. A later Moment than
	// that of the arrival is as good, an earlier one is not. Without one, Mint and Reserve return
	// ErrMoment. If another server issues the ids, the error is an Elsewhere with Redirect, or otherwise
	// ErrWait while they are fetched from there.
	Reserver
	// Moment reads the clock of When.Moment: ns since the host's boot, at least 1. It costs about as much
	// as an id.
	Moment() int64
	// Where returns the slot of the name, and whether another server issues its ids now.
	Where() (at Elsewhere, elsewhere bool)
}

// ErrMoment is returned by a Punctual that was not told a moment: read it and ask again. So callers read
// that clock only for sources that need it.
var ErrMoment = errors.New("id: ask with a moment")

// An Elsewhere is the error of a Punctual whose ids are issued by another server.
type Elsewhere struct {
	Slot    int    // of the name, in Redis's clusters
	Address string // of that server, host:port; empty = there is none now
}

func (e Elsewhere) Error() string {
	if e.Address == "" {
		return "no server issues these ids now"
	}
	return "these ids are issued by " + e.Address
}
