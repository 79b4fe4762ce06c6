package workerid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
)

// Forever as a Grant's Hi means that the window has no end. Such a grant is never extended.
const Forever = math.MaxInt64

// A Grant allows Owner, and no other process, to use Worker for ids whose tick lies wholly within the
// window Lo..Hi. Both are Unix milliseconds, inclusive. Hi = Lo − 1 is an empty window.
type Grant struct {
	Worker uint64
	Owner  string
	Lo, Hi int64
}

// A Request tells Acquire what to look for.
type Request struct {
	Owner    string // the lane that asks; it holds one grant at a time, see NewOwner
	Min, Max uint64 // range of worker ids, both inclusive
}

// A Result is the outcome of extending one grant: the window from the old end + 1 to the new end, or
// an error. Lo > Hi is legal and lengthens nothing.
type Result struct {
	Grant Grant
	Err   error
}

// After one of these errors it is certain that the Store granted nothing that may be used. After any
// other error the Store may have carried out the request, and what was held before is still held. All
// of these may be wrapped.
var (
	// ErrLost: another holder has the worker id now, or may get it. Never extend again. The holder may
	// use its window until the window's end.
	ErrLost = errors.New("the lease is lost")
	// ErrShared: another process issues from the same window. Stop issuing at once and never extend
	// again.
	ErrShared = errors.New("somebody else uses the same window")
	// ErrCloned is an ErrShared: a copy of this process's memory extended the lease.
	ErrCloned = fmt.Errorf("%w: a copy of this process", ErrShared)
	// ErrNoID: every worker id in the range is taken. Retry: one becomes free when its lease ends.
	ErrNoID = errors.New("no worker id is free")
	// ErrNoneYet is an ErrNoID: for some time newcomers get no worker id, even a free one, because the
	// store may have forgotten grants. Retry. If an error of Acquire has a method RetryAfter()
	// time.Duration, the next Acquire is sent soon after that time at the latest.
	ErrNoneYet = fmt.Errorf("%w yet", ErrNoID)
	// ErrSkew: this host's clock and the store's differ too much to tell when a window ends. Retry:
	// an operator may correct the clocks.
	ErrSkew = errors.New("this host's clock and the store's differ too much")
	// ErrForeignPool: the worker ids belong to daemons with other settings, whose ids could equal
	// ours. Retrying does not help until an operator changes the settings.
	ErrForeignPool = errors.New("the worker ids belong to daemons with other settings")
	// ErrUnconfirmed: the store recorded the grant, but in too few places to survive a failure. Do not
	// use the grant yet; extend it until that succeeds. This is the only error with which the Grant of
	// Acquire or of a Result is valid.
	ErrUnconfirmed = errors.New("the grant is not yet held safely enough")
)

// A Store grants windows. The windows of one worker id never overlap, whatever happens to the daemons.
// The package comment lists the rules for that, and package storetest tests them.
//
// Several goroutines call a Store, and calls may overlap: a Keeper has at most one Acquire and one
// Extend under way, and may release all its lanes at once. The Store itself remembers what it needs
// between calls, such as its unanswered requests. When ctx ends, a call may still return late or
// never, for example because a disk hangs; this does not block the Keeper.
type Store interface {
	// Acquire grants a worker id in the range that no other owner holds, or returns ErrNoID.
	Acquire(ctx context.Context, want Request) (Grant, error)
	// Extend lengthens all held grants in one round trip. It returns one Result for each, in order, or
	// one error for all. The windows that it returns are already recorded.
	Extend(ctx context.Context, held []Grant) ([]Result, error)
	// Release gives a grant back. The generator must be sealed. last is the last Unix ms of its
	// ids, or Lo − 1 if it issued none. The next holder's window starts above last.
	Release(ctx context.Context, g Grant, last int64) error
}

// NewOwner returns a unique Owner for a lane's Request. It differs even between processes with the
// same pid on hosts with the same name.
func NewOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:12])
}
