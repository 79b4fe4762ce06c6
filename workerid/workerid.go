// Package workerid grants windows of id-time to daemons and keeps them.
package workerid

import (
	"context"
	"errors"
)

// A Grant says: Worker may be used for ids whose tick lies within Lo..Hi, by Owner alone. Unix milliseconds, both inclusive.
type Grant struct {
	Worker uint64
	Owner  string
	Lo, Hi int64
}

// The errors of a Store that are certain: nothing was granted. After any other error the request may have been carried out.
var (
	ErrLost        = errors.New("workerid: the lease is somebody else's now")
	ErrNoID        = errors.New("workerid: no worker id is free")
	ErrSkew        = errors.New("workerid: this host's clock and the store's differ too much")
	ErrForeignPool = errors.New("workerid: the pool belongs to daemons with other settings")
)

// A Request says what Acquire should look for.
type Request struct {
	Owner    string
	Min, Max uint64 // worker ids, both inclusive
}

// A Result is the outcome of extending one grant: the lengthened window, or an error.
type Result struct {
	Grant Grant
	Err   error
}

// A Store hands out windows. Those of one worker id never overlap, whatever becomes of the daemons.
type Store interface {
	Acquire(ctx context.Context, want Request) (Grant, error)
	// Extend lengthens all held grants in one round trip; one Result for each, in order.
	Extend(ctx context.Context, held []Grant) ([]Result, error)
	// Release gives a grant back. last is the last Unix ms that ids were issued from; its generator must be sealed.
	Release(ctx context.Context, g Grant, last int64) error
}
