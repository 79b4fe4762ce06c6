// Package server moves bytes between sockets and sessions: listeners, engines, limits, idle time-outs, draining. It knows no grammar
// and no ids.
package server

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// A Session answers the bytes of one connection. Feed consumes the first n bytes of in, appends its reply to out and returns the result.
// n = 0 with an empty reply means that more input is needed; any other result means that Feed may be called again with the rest.
// An error means: send the reply, then close. Feed keeps neither slice. A Session bounds what it leaves unconsumed and what it appends.
type Session interface {
	Feed(now int64, in, out []byte) (n int, reply []byte, err error)
}

// A Port is listeners whose connections are served alike. All fields are read only.
type Port struct {
	Listeners   []net.Listener         // event loop i accepts from listener i
	Open        func(loop int) Session // makes the session of a new connection, which lives on that loop
	Refusal     []byte                 // what a connection over Config.MaxConnections is sent
	OutOfMemory []byte                 // what one that is closed for holding most of Config.Budget is sent, unless it does not read
	TLS         *TLS                   // connections are encrypted; nil = they are not. Only the portable engine can
	Peers       bool                   // the sessions are PeerSessions; connections are then accepted a little slower
}

// An Engine serves the connections of one or more ports, all on the same event loops: as many as the port with most listeners has.
// Serve owns the listeners from the call on and returns when ctx has ended and every connection is answered and closed, or forcibly
// closed after Config.DrainTimeout. The file of a unix socket is removed just before its listener closes.
type Engine interface {
	Name() string
	Serve(ctx context.Context, ports []Port) error
}

// Close closes the listeners of ports that are not served.
func Close(ports []Port) { closeAll(Listeners(ports)) }

// Listeners is the listeners of all ports.
func Listeners(ports []Port) (lns []net.Listener) {
	for _, p := range ports {
		lns = append(lns, p.Listeners...)
	}
	return lns
}

// Config is what every engine needs. All fields are read only.
type Config struct {
	Now            func() int64  // the id clock, Unix ms; called once per turn of a loop
	MaxConnections int64         // of all engines that share Counters; above it a connection gets Port.Refusal and is closed. 0 = no limit
	Budget         *Budget       // of waiting input and output, shared by all engines of the daemon; nil = no limit
	IdleTimeout    time.Duration // a connection that neither sends nor takes a byte for this long is closed; 0 = never
	DrainTimeout   time.Duration // how long answered connections may take to accept their replies after ctx has ended
	Counters       *Counters     // shared by all engines of the daemon
	Log            *slog.Logger

	Linger time.Duration // how long a connection that was answered for the last time may go on sending, at least; 0 = a second
}

// Counters is what the engines count. Read it at any time.
type Counters struct {
	Current      atomic.Int64  // open connections
	Total        atomic.Uint64 // accepted since start, refused ones included
	Refused      atomic.Uint64 // closed at once for being over MaxConnections
	IdleClosed   atomic.Uint64 // closed by the idle time-out
	AcceptErrors atomic.Uint64
	BytesRead    atomic.Uint64
	BytesWritten atomic.Uint64

	Datagrams        atomic.Uint64 // requests over UDP
	DatagramsDropped atomic.Uint64 // those of them that got no reply

	told atomic.Pointer[told] // the last line about refused connections; nil before the first
}
