package id

import "errors"

// A Punctual is a Source that issues in strict order: if the answer to one request arrived before
// another request was made, on whatever hosts, its ids are smaller. So it must know for each request a
// moment at which the request had arrived, and compares that with the end of its own authority.
type Punctual interface {
	Reserver // whose Mint and Reserve return ErrMoment, always
	// Moment reads the clock of MintAt and ReserveAt: ns since the host's boot, at least 1. It costs
	// about as much as an id.
	Moment() int64
	// MintAt is Mint for a request that had arrived at moment. A later moment is as good, an earlier
	// one is not. After ErrWait ask again with the same moment and n: they identify the request. If another
	// server issues the ids, the error is an Elsewhere with redirect, or otherwise ErrWait while they
	// are fetched from there.
	MintAt(moment int64, n int, redirect bool) (Run, error)
	// ReserveAt is the same for Reserve.
	ReserveAt(moment int64, n int, redirect bool) (Run, error)
	// Where returns the slot of the name, and whether another server issues its ids now.
	Where() (at Elsewhere, elsewhere bool)
}

// ErrMoment is returned by a Punctual that was not told a moment.
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
