// Package protocol speaks memcached's protocols for a server whose every get is a hit: bytes in, bytes out, no I/O, no clock, no
// goroutine.
//
// The guarantee: what a Session answers depends only on the bytes it was fed and on what its Handler says, never on how the bytes were
// cut into Feeds; and no length that a client claims is ever allocated or believed. What is not promised: that it stores anything.
package protocol

import (
	"errors"
	"sync/atomic"
)

// A Handler is what the protocol needs of the program behind it. One serves all sessions of an event loop; with the portable engine
// its methods are called from several goroutines at once.
type Handler interface {
	// Source tells which generator answers a key; 0 is the default. Neighbouring keys of one source share a Mint. key is not kept.
	Source(key []byte) int
	// Mint issues between 1 and n ids of a source: first, first+stride, ..., got of them. now is Unix ms. An error's text goes to
	// the client, on one line, as the reason of a SERVER_ERROR; it means that nothing was issued.
	Mint(now int64, source, n int) (first, stride uint64, got int, err error)
	// Stats calls emit for every line of a statistics group ("" is the general one) and reports whether the group exists.
	Stats(group []byte, emit func(name, value string)) bool
}

// ErrClose is Feed's way to say: send the reply, then close the connection.
var ErrClose = errors.New("protocol: close the connection")

// Limits. Those that memcached has are memcached's.
const (
	MaxKey     = 250      // bytes of a key
	MaxLine    = 2048     // bytes of a command line, LF included, other than a get's
	MaxGetLine = 1 << 20  // bytes of a get, gets, gat or gats line, LF included
	MaxBody    = 1 << 20  // bytes of a value that a storage command may send; it is swallowed, never stored
	ReplyChunk = 64 << 10 // Feed stops once its reply has reached this many bytes
)

// Counters counts what the sessions of one event loop did. Sessions add to it; anybody may read it at any time.
type Counters struct {
	Get, Gets, Gat, Meta, Set, Touch, Delete, Incr, Flush, Stats, Version, Other atomic.Uint64 // commands (lines or frames) by kind
	IDs                                                                          atomic.Uint64 // ids sent: memcached's get_hits
	Refused                                                                      atomic.Uint64 // keys answered by an error instead of an id: get_misses
	Malformed, TooLong, Unauthenticated                                          atomic.Uint64 // errors of the client, by reason
	AuthCmds, AuthErrors                                                         atomic.Uint64
}
