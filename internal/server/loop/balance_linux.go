package loop

import (
	"net/netip"
	"sync"
)

// A balance deals new connections out to the loops of an engine: each goes to the loop that has the fewest,
// whoever accepts it. The kernel chooses a listener by a hash of addresses alone, which leaves one of two
// loops without work at every fifth host that has four clients. A request costs nothing more, and a connection
// that stays where it was accepted a lock.
type balance struct {
	loops []*Loop

	mu     sync.Mutex // held while a connection is passed on
	paused bool       // each loop keeps what it accepts; guarded by mu
}

// An Arrival is a connection that was accepted elsewhere.
type Arrival struct {
	FD      int32
	Port    uint8
	Peer    netip.Addr // of a new connection, if it is known
	Adopted *Adopted   // nil: the connection is new
}

// place returns which of the first n loops a connection goes to, and counts it there. If none has fewer than
// l has, it is l.
func (b *balance) place(n int, l *Loop) *Loop {
	b.mu.Lock()
	defer b.mu.Unlock()
	to := l
	if !b.paused {
		for _, other := range b.loops[:n] {
			if other.load.Load() < to.load.Load() {
				to = other
			}
		}
	}
	to.load.Add(1)
	return to
}

// pause returns when no connection is on its way from one loop to another any more, but for those that their
// loops have been given.
func (b *balance) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = true
}

// resume undoes pause.
func (b *balance) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = false
}

// Place returns the loop for a connection that l has accepted from a port: usually l. It may be passed on, and
// must be kept otherwise.
func (l *Loop) Place(port int) *Loop { return l.balance.place(len(l.Acceptors[port].Listeners), l) }

// Pass gives a connection to the loop that Place has chosen. After false it belongs to l, as after Keep: an
// engine that freezes or drains passes nothing on.
func (l *Loop) Pass(to *Loop, a Arrival) bool {
	b := l.balance
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused {
		l.Keep(to)
		return false
	}
	to.give(a)
	return true
}

// Keep makes a connection that Place wanted elsewhere one of l's.
func (l *Loop) Keep(to *Loop) {
	to.load.Add(-1)
	l.load.Add(1)
}

// Admit is server.Config's for a connection that was placed here.
func (l *Loop) Admit() bool {
	ok := l.Config.Admit()
	if !ok {
		l.load.Add(-1)
	}
	return ok
}

// Left takes a connection that was admitted out of the counts.
func (l *Loop) Left() {
	l.Counters.Current.Add(-1)
	l.load.Add(-1)
}

// give hands a connection to the loop.
func (l *Loop) give(a Arrival) {
	l.mu.Lock()
	l.given = append(l.given, a)
	l.mu.Unlock()
	l.Signal(SignalGiven)
}

// Taken returns the connections handed to the loop, and what Control has told it, in order; nil means
// to thaw. The connections came first, or before the thaw: all that was handed over before a freeze is
// here with it, or was before.
func (l *Loop) Taken() ([]Arrival, []*Freeze) {
	l.mu.Lock()
	defer l.mu.Unlock()
	given, orders := l.given, l.orders
	l.given, l.orders = nil, nil
	return given, orders
}
