package cas

import (
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A Driver carries the calls of one daemon to a store. All reads and writes are linearizable. Calls
// come one at a time. A Driver never repeats a call that may have been carried out.
//
// A connection has a name. Each call says over which connection it must be carried out; once that is
// gone, the call is refused with ErrConnection, even if a library has made another one since.
type Driver interface {
	// Connect returns the name of the connection, and makes one if there is none. A name consists of
	// letters, digits and dots. It is never used again, not even by a copy of this process: so
	// something in it must come from the store.
	Connect(ctx context.Context) (conn string, err error)
	// Load reads meta, all records and all presences.
	Load(ctx context.Context, conn string) (pool.View, error)
	// Commit carries out a Change, or reports what is recorded of all that it compared.
	Commit(ctx context.Context, conn string, c pool.Change) (Answer, error)
	// Announce makes a presence that ends with this daemon's session, or deletes that if text is "".
	Announce(ctx context.Context, conn string, worker uint64, text string) error
	Close() error
}

// An Answer is the outcome of a Commit.
type Answer struct {
	Done bool
	View pool.View // if not Done
	// the session that presences belong to; if it is another one, they must be made again
	Session string
}

// ErrConnection: the connection of a call is gone, and the call was not sent.
var ErrConnection = errors.New("the connection broke")
