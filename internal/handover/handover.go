// Package handover is both sides of an upgrade: a Giver lets a process of a new program take over without
// a gap, a Taker is what that process does first. Package upgrade says what the two say to each other.
//
// Until the new process has everything that it needs, nothing changes in the old one, so a new program
// that does not come up does no harm. Then:
//
//  1. The services answer what is under way; new connections wait in the backlogs of the sockets.
//  2. The engine freezes: from here on no id is issued, so the largest position is final.
//  3. Worker ids given by hand are released, as at a clean stop. Leased ones are kept: the new process
//     has leased its own.
//  4. The new process gets the connections and the largest position, opens the state files, and says
//     that it is ready. It has touched no connection.
//  5. The old process says Serve. It never touches the connections again.
//
// If anything goes wrong before 5, the new process is killed with all that it has started. When all of that
// has ended, however long it takes, all is taken back: nobody else can have issued an id or answered a
// connection. A signal to stop ends the wait, and the old process, which serves nobody again. If the new process
// dies after 5, its connections are lost, and the old one serves new ones.
//
// Sequences stay as they are until the new process serves. What the old process had reserved is given back
// then, or is a gap if the new one has reserved meanwhile: values rise either way. Terms of strict order are handed
// over at that moment.
//
// What is easy to break:
//
//   - Ids on a connection keep rising, also with another worker id: all generators of the new process begin
//     after the largest position of the old one, and its id clock is as far ahead of the wall clock.
//     Companions go on from their own words, in windows that begin right after that position: one that began
//     above it would refuse for a while.
//   - The new process makes listeners from the passed sockets only after Take. Package net makes a socket
//     blocking for a moment, and an event loop of the old process that accepts from it just then would stand
//     still.
//   - The new process is the one that was started: the kernel names the sender of each message. A program
//     under a shell script that does not exec is refused, because systemd and the old process would know the
//     shell's number only.
//   - The old process waits for Serving only while it runs itself. Else one that was stopped meanwhile would
//     kill a process that serves.
//   - A new process writes its errors through the old one until it serves, so that the caller of the upgrade
//     reads them.
package handover

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
)

// Config is what a handover needs of the process. All fields are required. It has no Validate: none is a setting.
type Config struct {
	Log         *slog.Logger
	Version     string // of this program
	Fingerprint string // of the ids' layout
	Counters    string // where sequences are, see stores.Counters.Place
	// Keeps reports whether this process has any.
	Keeps   func() bool
	Windows *windows.Holder
	Mover   server.Mover // of the connections
	// Sockets returns copies of all sockets that this process listens on.
	Sockets func() (sockets.Passed, error)
	// Pause ends what answers beside the Mover, after the answers to what is under way. Resume serves these sockets
	// again.
	Pause  func()
	Resume func(sockets.Passed) error
}

// A Child is a process that may become the successor of this one: an *upgrade.Child.
type Child interface {
	Send(m upgrade.Message, fds ...int) error
	Await(ctx context.Context, wanted upgrade.Kind) (upgrade.Message, error)
	Deadline(time.Time)
	Flushed()
	Signal(os.Signal)
	Kill()
	End(ctx context.Context, served bool) error
	Pid() int
}

// An Origin is the process that this one is to succeed: an *upgrade.Origin.
type Origin interface {
	Send(m upgrade.Message, fds ...int) error
	Receive() (m upgrade.Message, fds []int, err error)
	Deadline(time.Time)
	Detach() error
	Close() error
}

// stepTimeout is how long the new process may take for each of the last steps, and to take what it is sent.
const stepTimeout = 10 * time.Second

// closeMoved closes connections.
func closeMoved(moved []server.Moved) {
	for _, m := range moved {
		upgrade.CloseAll([]int{m.FD})
	}
}

// portions returns parts of a list that fit into a message each.
func portions[S ~[]E, E any](list S) []S {
	return slices.Collect(slices.Chunk(list, upgrade.MaxDescriptors))
}
