package cas

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Limits of a pool.
const (
	MaxRecords  = 100     // records in a Change; a Session splits what is more
	maxWorkers  = 4096    // worker ids of a pool
	MaxChildren = 10_000  // records, presences and announcements that a Driver reads; more are refused
	MaxBytes    = 1 << 20 // of all these texts
	maxPeer     = 4096    // bytes of an announcement
)

// Blank is what a View says of a key that is there and has no text. No daemon writes such a key.
const Blank = "\x00"

// A Driver carries the calls of one daemon to a store. All reads and writes are linearizable. Calls
// come one at a time, except Figures. A Driver never repeats a call that may have been carried out.
//
// A connection has a name. Each call says over which connection it must be carried out; once that is
// gone, the call is refused with ErrConnection, even if a library has made another one since. Any
// other error means that the call may have been carried out.
type Driver interface {
	// Connect returns the name of the connection, and makes one if there is none. A name consists of
	// at most 80 letters, digits and dots. It is never used again, not even by a copy of this
	// process: so something in it must come from the store.
	Connect(ctx context.Context) (conn string, err error)
	// Load reads meta, all records and all presences. What is not there is "", or not in the maps,
	// which are never nil. There may be no pool at all; that is no error.
	Load(ctx context.Context, conn string) (pool.View, error)
	// Commit carries out a Change, or reports what is recorded of all that it compared: always meta,
	// and the records in If. A Change of nothing is done, and only tells the session; a Driver need
	// not ask the store for that.
	Commit(ctx context.Context, conn string, c pool.Change) (Answer, error)
	// Announce makes a presence that ends with this daemon's session, and replaces whosever there
	// is. If text is "", it deletes the presence if that belongs to this daemon's session.
	Announce(ctx context.Context, conn string, worker uint64, text string) error
	// Publish makes, changes and deletes a daemon's announcement in the same way.
	Publish(ctx context.Context, conn, name, text string) error
	// Peers reads all announcements.
	Peers(ctx context.Context, conn string) (map[string]string, error)
	// Figures emits what the driver knows now, always in the same order: servers, session or lease
	// and its TTL, what the store says of its history, the last error. Any goroutine may call it, also
	// during another call.
	Figures(emit func(figure.Figure))
	// Close ends the session, and with it presences and announcements.
	Close() error
}

// An Answer is the outcome of a Commit.
type Answer struct {
	Done bool
	View pool.View // if not Done; Present is nil
	// the session that presences belong to; if it is another one, they must be made again
	Session string
}

// ErrConnection: the connection of a call is gone, and the call was not sent.
var ErrConnection = errors.New("the connection broke")

// ErrTooLarge: of Load and Peers. There is more below the pool's path than a pool can have. An
// operator must look what it is.
var ErrTooLarge = fmt.Errorf("more than %d entries, or %d bytes, below the path of the pool", MaxChildren, MaxBytes)

// Options are the settings of a daemon's side that all drivers share.
type Options struct {
	PasswordFile string // instead of a password in the URL; see package secretfile
	CAFile       string // PEM, for URLs with TLS; empty = the system's certificates
	CertFile     string // PEM, this daemon's certificate; empty = none
	KeyFile      string // PEM, its key
	Addr         string // this daemon's host:port, for its presences; may be empty
	// Boot is a clock in ns that runs on while the host sleeps, and cannot be set. Default CLOCK_BOOTTIME.
	Boot func() int64
}

// Name is how a worker id is written in the names of records and presences.
func Name(worker uint64) string { return fmt.Sprintf("%04d", worker) }

// ParseName reads what Name wrote, and nothing else.
func ParseName(name string) (worker uint64, ok bool) {
	worker, err := strconv.ParseUint(name, 10, 64)
	return worker, err == nil && Name(worker) == name
}
