package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// A Moved is a plain connection that one engine gives away, perhaps to another process, at a boundary
// between two Feeds of its session. Nothing is under way for it any more: what the client has sent and
// is not in In is still in the kernel's socket, and so is the end of input.
type Moved struct {
	Port  string // Port.Name
	FD    int    // the kernel's socket, non-blocking; owned by the receiver, which closes it
	In    []byte // read and not consumed by the session, also the requests of a parked session
	Out   []byte // answered and not sent
	State []byte // what Port.Resume needs, see Movable; empty = as new
}

// A Movable is a Session that can be given away. Freeze is called between two Feeds, at most once, and
// no Feed follows. state is for Port.Resume, also that of another version of the program. ok = false
// means that the connection must stay.
type Movable interface {
	Freeze() (state []byte, ok bool)
}

// A Mover is the part of an Engine that gives connections away and takes them. All methods may be
// called by any goroutine.
type Mover interface {
	// Freeze stops the engine while Serve runs. Nothing is accepted, and nothing is read, any more; the
	// listeners stay open, and connections in their backlogs stay there. When Freeze returns, no
	// Feed runs and none will: no id is issued. It gives away every plain connection whose session
	// is Movable. They no longer count in Counters.Current.
	//
	// Connections at their end stay (the last reply is there, but the client may still read); they end
	// as usual. Those that cannot move are held: a session that is no Movable, and encrypted ones,
	// which first get an answer to what has arrived. What follows is up to the caller: Thaw, or the end
	// of Serve's context, which then closes all that is left without another Feed, and leaves the file
	// of a unix socket alone.
	//
	// An error means that the engine goes on as before: ctx has ended, or it is not serving (any more),
	// or it is frozen already.
	Freeze(ctx context.Context) ([]Moved, error)
	// Thaw undoes Freeze: it adopts the connections and accepts again. After an error, which is ErrIdle
	// or ErrThawed, the connections are still the caller's. A connection that cannot be adopted is
	// closed, and the log says so.
	Thaw([]Moved) error
	// Adopt serves a connection that another engine gave away; it may do so as soon as Adopt begins. It
	// counts in Current, not in Total, and is never refused for MaxConnections. After an error the
	// descriptor is still the caller's: ErrIdle before Serve (ask again), after it and while it
	// drains; ErrFrozen; or one that says what is wrong with m.
	Adopt(m Moved) error
}

var (
	// ErrIdle: Serve has not begun, where the call may be repeated, or it has ended, which is final.
	ErrIdle = errors.New("server: the engine is not serving")
	// ErrFrozen: after Freeze, until Thaw.
	ErrFrozen = errors.New("server: the engine is frozen")
	// ErrThawed: there was no Freeze, or Thaw has undone it.
	ErrThawed = errors.New("server: the engine is not frozen")
)

// Reopen makes the session of an adopted connection; see Resume.
func (p *Port) Reopen(loop int, asked *latency.Asked, state []byte) (Session, error) {
	switch {
	case len(state) == 0:
		return p.Open(loop, asked), nil
	case p.Resume == nil:
		return nil, fmt.Errorf("server: connections to the port %s have no state", p.Name)
	}
	return p.Resume(loop, asked, state)
}
