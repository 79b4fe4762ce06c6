package workerid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
)

// Forever as a Grant's Hi says that the window has no end. Such a grant is never extended.
const Forever = math.MaxInt64

// A Grant says: Worker may be used for ids whose tick lies wholly within Lo..Hi, by Owner alone. Unix milliseconds, both inclusive;
// Hi = Lo − 1 is a window that is still empty.
type Grant struct {
	Worker uint64
	Owner  string
	Lo, Hi int64
}

// A Request says what Acquire should look for.
type Request struct {
	Owner    string // who asks, and holds one grant at a time; see NewOwner
	Min, Max uint64 // worker ids, both inclusive
}

// A Result is the outcome of extending one grant: the window from the old end + 1 to the new one, or an error. Lo > Hi is legal and
// lengthens nothing.
type Result struct {
	Grant Grant
	Err   error
}

// The errors of a Store that are certain: it granted nothing that may be used. After any other error the request may have been carried
// out, and what was held before is still held. All of them may be wrapped.
var (
	// ErrLost: the worker id is somebody else's now, or may become so. Never extend again. The window that was granted before stays
	// the holder's until its end.
	ErrLost = errors.New("the lease is lost")
	// ErrShared: somebody else issues from the same window. Never extend again, and stop issuing from it at once.
	ErrShared = errors.New("somebody else uses the same window")
	// ErrCloned is an ErrShared: a copy of this process's memory extended the lease.
	ErrCloned = fmt.Errorf("%w: a copy of this process", ErrShared)
	// ErrNoID: every worker id of the range is taken. Retry; one may become free when its lease ends.
	ErrNoID = errors.New("no worker id is free")
	// ErrNoneYet is an ErrNoID: none is given out to newcomers for some time, taken or not, since grants may have been forgotten. Retry. An
	// error of Acquire that has a method RetryAfter() time.Duration says when: the next Acquire comes no later than soon after that.
	ErrNoneYet = fmt.Errorf("%w yet", ErrNoID)
	// ErrSkew: this host's clock and the store's differ too much to tell when a window ends. Retry; clocks are set right.
	ErrSkew = errors.New("this host's clock and the store's differ too much")
	// ErrForeignPool: the worker ids belong to daemons with other settings, whose ids could equal ours. Retrying does not help
	// before somebody changes the settings.
	ErrForeignPool = errors.New("the worker ids belong to daemons with other settings")
	// ErrUnconfirmed: the store wrote the grant, but not to as many places as it must be in to survive a failure. It may not be used
	// yet: extend it until that succeeds. Only with this error do Acquire's Grant and a Result's mean anything.
	ErrUnconfirmed = errors.New("the grant is not yet held safely enough")
)

// A Store hands out windows. Those of one worker id never overlap, whatever becomes of the daemons. What that takes of a store is
// listed in the package comment and tested by package storetest.
//
// Calls come from several goroutines, and may overlap: a Keeper has one Acquire and one Extend under way at most, and the Releases of all
// its lanes at once. A Store keeps by itself what it must remember between calls, such as the requests that it has no answer to. A call that
// outlives ctx may return late or not at all, as a disk may; the Keeper waits for it elsewhere.
type Store interface {
	// Acquire grants a worker id of the range that nobody else holds; ErrNoID if there is none.
	Acquire(ctx context.Context, want Request) (Grant, error)
	// Extend lengthens all held grants in one round trip: one Result for each, in order, or an error that holds for all of them.
	// The windows that it returns are already recorded.
	Extend(ctx context.Context, held []Grant) ([]Result, error)
	// Release gives a grant back. last is the last Unix ms that ids were issued from, Lo − 1 if none were; the generator must be
	// sealed. The next holder's window starts above it.
	Release(ctx context.Context, g Grant, last int64) error
}

// NewOwner names a lane of this process for its Requests: nobody else, not even a process of the same number on a host of the same name, has
// the same one.
func NewOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:12])
}
