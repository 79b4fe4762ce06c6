// Package server moves bytes between sockets and sessions: listeners, engines, limits, idle
// time-outs, draining. It knows nothing about grammars or ids.
package server

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// A Session answers the bytes of one connection. Feed consumes the first n bytes of in, appends its
// reply to out and returns the result. n = 0 with an empty reply means that Feed needs more input;
// after any other result the caller may call Feed again with the rest. An error that Waits means:
// send the reply, and call Feed again with the rest, even an empty one, after Engine.Wake or a short
// while. Any other error means: send the reply, then close; but see Successor. Feed keeps neither
// slice. A Session limits how much input it leaves unconsumed and how much it appends.
type Session interface {
	Feed(now int64, in, out []byte) (n int, reply []byte, err error)
}

// A Port is a set of listeners whose connections are served the same way. All fields are read only.
type Port struct {
	Name      string         // tells the ports of an engine apart, see Moved; "" where nothing moves
	Listeners []net.Listener // event loop i accepts from listener i
	// Open makes the session for a new connection, which stays on that loop. It notes which names it is asked for in
	// asked; nil = in its loop's Config.Asked.
	Open func(loop int, asked *latency.Asked) Session
	// Resume makes the session of a connection that moved here, from what its session said when it was
	// frozen; see Movable. It trusts nothing of state. nil = only sessions without a state move here.
	Resume  func(loop int, asked *latency.Asked, state []byte) (Session, error)
	Refusal []byte // sent to a connection over Config.MaxConnections
	// OutOfMemory is sent when Config.Budget closes a connection, if the client is still reading.
	OutOfMemory []byte
	// TLS encrypts the connections; nil = plain. Only the portable engine supports it.
	TLS  *TLS
	Lent bool // the listeners are another process's too: the file of a unix socket stays at the end
	// Shared: a process that was killed may have accepted from the listeners too. The kernel ends its
	// io_uring late. Until then an accept that waits there may be woken instead of ours.
	Shared bool
	Peers  bool // the sessions are PeerSessions; this makes accepting a little slower
}

// An Engine serves the connections of one or more ports, all on the same event loops: one loop per
// listener of the port with the most listeners. Serve takes ownership of the listeners. It returns
// once ctx has ended and every connection is answered and closed; after Config.DrainTimeout it
// closes the rest by force. It removes the file of a unix socket just before it closes the listener.
type Engine interface {
	Name() string
	Serve(ctx context.Context, ports []Port) error
	// Wake makes the engine ask every parked session again, soon, see Waits. Any goroutine may call
	// it at any time, also before Serve and after it. While no session is parked it does nothing and
	// costs a load per event loop.
	Wake()
	// Hold says that the rest of the process is busy. For half a second, an idle event loop then keeps
	// its P in the Go runtime, so that the others do not get more Ps than there are CPUs; see
	// raw_linux.go of package loop. Any goroutine may call it at any time.
	Hold()
	Mover
}

// Close closes the listeners of ports that will not be served.
func Close(ports []Port) { closeAll(Listeners(ports)) }

// Listeners returns the listeners of all ports.
func Listeners(ports []Port) (lns []net.Listener) {
	for _, p := range ports {
		lns = append(lns, p.Listeners...)
	}
	return lns
}

// Config holds what every engine needs. All fields are read only.
type Config struct {
	Now func() int64 // the id clock, Unix ms; called once per turn of an event loop
	// MaxConnections is the limit over all engines that share Counters. A connection above it gets
	// Port.Refusal and is closed. 0 = no limit.
	MaxConnections int64
	// Budget limits waiting input and output over all engines of the daemon; nil = no limit.
	Budget *Budget
	// IdleTimeout: a connection that neither sends nor takes a byte for this long is closed; 0 =
	// never.
	IdleTimeout  time.Duration
	DrainTimeout time.Duration // after ctx has ended, how long clients may take to read their replies
	Counters     *Counters     // shared by all engines of the daemon
	Log          *slog.Logger
	// Spin: for how long an event loop that has just answered looks for the next input before it sleeps. 0 = not at
	// all; SpinAuto = as long as it pays.
	Spin time.Duration
	// Latency has a histogram for each event loop; nil = nothing is measured. See latency.Sampler. An
	// answer is what is sent for the input of one read. Its time is that of the whole turn, until the
	// answers of the turn are handed to the kernel; with the portable engine, it is that of this input alone.
	// An answer for which the session waited counts from when it began to wait.
	Latency []latency.Histogram
	// Asked is where the sessions of each event loop note which names they are asked for; nil = nowhere. Those of the
	// portable engine have one of their own.
	Asked []*latency.Asked

	Linger time.Duration // how long a connection may at least go on sending after its last reply; 0 = 1 s
	// ParkPause: a parked session is asked again at least this often; 0 = 50 ms.
	ParkPause time.Duration
}

// SpinAuto is the value of Config.Spin with which each loop learns whether spinning pays.
const SpinAuto time.Duration = -1

// Sampler returns what measures the turns of an event loop, or of a connection that belongs to it.
func (c *Config) Sampler(loop int) (s latency.Sampler) {
	if loop < len(c.Latency) {
		s.Histogram = &c.Latency[loop]
	}
	if loop < len(c.Asked) {
		s.Asked = c.Asked[loop]
	}
	return s
}

// Counters holds what the engines count. It may be read at any time.
type Counters struct {
	Current      atomic.Int64  // open connections
	Total        atomic.Uint64 // accepted since start, including refused ones
	Refused      atomic.Uint64 // closed at once because of MaxConnections
	IdleClosed   atomic.Uint64 // closed by the idle time-out
	AcceptErrors atomic.Uint64
	BytesRead    atomic.Uint64
	BytesWritten atomic.Uint64

	HandshakeErrors atomic.Uint64 // TLS handshakes that failed, or did not end in time

	Datagrams        atomic.Uint64 // requests over UDP
	DatagramsDropped atomic.Uint64 // requests over UDP that got no reply

	told atomic.Pointer[told] // last log line about refused connections; nil before the first
}
