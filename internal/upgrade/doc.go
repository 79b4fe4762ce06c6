// Package upgrade is what a daemon and its successor, a process of a newer program, say to each
// other, and how the successor is started. It knows neither ids nor protocols.
//
// The old process starts the new one with one end of a socket pair. Then:
//
//	old                                   new
//	Sockets..., Begin   ──────────────▶   checks its settings, the sockets and what it was told
//	                    ◀──────────────   Waiting: still alive, and why it is not ready (any number)
//	                    ◀──────────────   Hello: ready, except for what only one process can have
//	freezes its connections, gives up
//	what only one process can have
//	Take, Moved...      ──────────────▶   takes that, and starts above Take.Floor
//	                    ◀──────────────   Ready: could serve, and has touched no connection
//	Serve               ──────────────▶   serves
//	                    ◀──────────────   Serving
//	ends
//
// Until it sends Serve, the old process can take everything back. Before it does so it kills the new
// one with all that it has started, and waits for the end of that, so the two never both have anything.
// From Serve on it never touches the connections again. The new one says Refused instead of any answer
// if it cannot go on, and ends. The old one says Refused to what is left of a new one that it has killed.
//
// The new process is the one that was started: the kernel says who sends a message. A shell script must
// exec the program.
//
// If the old process dies, the new one reads the end of the stream: it goes on with what it has by
// then. So after the death of either process at any moment, the other one serves.
package upgrade

import (
	"encoding/json"
	"errors"
)

// Version is the version of what the two say. A process refuses another one.
const Version = 1

// Kind says what a Message is.
type Kind string

// The kinds of messages; see the package.
const (
	Sockets Kind = "sockets"
	Begin   Kind = "begin"
	Take    Kind = "take"
	Moved   Kind = "moved"
	Serve   Kind = "serve"

	Waiting Kind = "waiting"
	Hello   Kind = "hello"
	Ready   Kind = "ready"
	Serving Kind = "serving"
	Refused Kind = "refused"
)

// A Message is one step. The fields that its Kind does not have are zero; a field that the reader
// does not know is ignored.
type Message struct {
	Kind    Kind   `json:"kind"`
	Version int    `json:"version,omitempty"` // of Begin and Hello
	Program string `json:"program,omitempty"` // of Begin and Hello: the program's version
	Why     string `json:"why,omitempty"`     // of Waiting and Refused

	Sockets     []string `json:"sockets,omitempty"`     // of Sockets: the name of each descriptor
	Lent        []string `json:"lent,omitempty"`        // of Sockets: those of the names whose sockets a supervisor keeps
	Fingerprint string   `json:"fingerprint,omitempty"` // of Begin and Hello: of the ids' layout
	// Counters is of Hello: where the process has its sequences. Empty = it does not say.
	Counters string `json:"counters,omitempty"`

	// Take says: all ids so far are at or before Floor, in Unix ms; the id clock is Ahead of the wall
	// clock, in ns; so many connections follow in Moved.
	Floor       int64 `json:"floor,omitempty"`
	Ahead       int64 `json:"ahead,omitempty"`
	Connections int   `json:"connections,omitempty"`
	// Places is a JSON text of Take: how far the ids of other layouts have come. A process that does not get
	// it, or does not know it, begins above all that it knows of the worker ids.
	Places json.RawMessage `json:"places,omitempty"`

	Moved []Connection `json:"moved,omitempty"` // of Moved: one for each descriptor
}

// A Connection is one that the old process accepted; see server.Moved.
type Connection struct {
	Port  string `json:"port"`
	In    []byte `json:"in,omitempty"`
	Out   []byte `json:"out,omitempty"`
	State []byte `json:"state,omitempty"`
}

// MaxDescriptors is the most descriptors that one Message carries; the kernel allows 253.
const MaxDescriptors = 128

// maxMessage is the most bytes of a Message: MaxDescriptors connections with all that they may have
// waiting.
const maxMessage = 1 << 30

var (
	// ErrUnsupported means that this system cannot pass sockets to another process. Never retry.
	ErrUnsupported = errors.New("upgrade: a daemon can be upgraded while it runs on Linux only: stop it and start the " +
		"new program")
	// ErrBroken means that the other process sent what is no message. Never retry.
	ErrBroken = errors.New("upgrade: not a message")
)
