package loop

import (
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// parking is the part of a Loop that deals with connections whose sessions wait. A connection that
// is not parked costs nothing here, and a parked one a number.
//
// # Why no wake-up is lost
//
// A source first makes what clients wait for available, then calls Wake. Wake signals a loop only if
// awaited is set there. The loop sets it when a session says that it must wait, and then asks that
// session once more before it parks the connection. So there are two cases:
//
//   - Wake reads awaited after it was set. Then there is a signal. The loop handles the signals of a
//     turn after all sessions of the turn, so the connection is in the list by then, whether the
//     signal came before or after.
//   - Wake reads awaited before it was set. Then what was made available was so before the session
//     was asked the second time, and the session finds it.
//
// (Go's atomic operations have one order that all goroutines see, so there is no third case.)
// awaited stays set until the loop is woken and finds nobody parked. While it is set, a Wake before
// the connection is in the list leaves a signal, too, and no second question is needed.
//
// # Rounds
//
// A session may look at all its input each time it is asked, and parked connections may hold as much
// as the memory budget allows. So one turn asks only as many as hold askAtOnce bytes together, and
// the other connections of the loop have theirs between. A round, which SignalWake and SignalPoll
// begin, goes on like that until it has asked all who were parked at its beginning: without a pause
// after a Wake, otherwise with one, so that asking in vain takes only a part of the loop's time.
type parking struct {
	parked  []int32     // slots, in the order in which they were parked; some may have been closed
	due     int         // how many of them, the first ones, this round has yet to ask
	awaited atomic.Bool // Wake must signal
	polling bool        // SignalPoll will follow
	asking  bool        // SignalAsk will follow, after askPause or at once
	woken   bool        // a Wake began the round
}

const (
	askAtOnce = 256 << 10 // bytes of input
	askCost   = 128       // ... that one without input counts for
	askPause  = 5 * time.Millisecond
)

// park parks c, whose session has consumed n bytes of input, replied with out, and must wait. It
// returns what Converse would; without an error, and with c.Parked, if the session still waits.
func (l *Loop) park(c *Conn, input []byte, n int, out []byte) (_ int, reply []byte, full bool, err error) {
	if !l.awaited.Load() {
		l.awaited.Store(true)
		var k int
		k, out, full, err = server.Converse(&c.Session, l.now, input[n:], out)
		if n += k; err == nil || !server.Waits(err) {
			return n, out, full, err
		}
	}
	c.Parked = true
	l.parked = append(l.parked, c.Slot)
	if !l.polling {
		l.polling = true
		time.AfterFunc(l.ParkPauses(), func() { l.Signal(SignalPoll) })
	}
	return n, out, false, nil
}

// waits measures how long a session waits that is parked, or was. answered: it has replied now.
func (l *Loop) waits(c *Conn, answered bool) {
	if c.Parked || !answered {
		l.latency.Waits()
	}
	switch {
	case answered && c.since != 0:
		waited := time.Duration(stamp()-c.since) * time.Microsecond
		l.latency.Waited(latency.Clock() - waited)
		c.since = 0
	case answered:
		l.latency.Answered()
	}
	switch {
	case !c.Parked:
		c.since = 0
	case c.since == 0:
		c.since = stamp()
	}
}

// stamp returns the present in µs, never 0. It wraps around after 71 minutes, and no session waits that
// long.
func stamp() uint32 { return uint32(latency.Clock()/time.Microsecond) | 1 }

// Unpark handles SignalWake, SignalPoll and SignalAsk: it queues parked connections for another
// turn, in the order in which they were parked. It calls woken, if not nil, for each.
func (l *Loop) Unpark(signals uint32, woken func(*Conn)) {
	if signals&SignalPoll != 0 {
		l.polling = false
	}
	if signals&SignalAsk != 0 {
		l.asking = false
	}
	if len(l.parked) == 0 {
		l.awaited.Store(false)
		return
	}
	if signals&(SignalWake|SignalPoll) != 0 {
		l.due, l.woken = len(l.parked), l.woken || signals&SignalWake != 0
	}
	asked := 0
	for size := 0; asked < l.due && size < askAtOnce; asked++ {
		c := l.Conns.At(l.parked[asked])
		if !c.Parked { // it was closed; if the next one in its slot is parked, it is in the list, too
			continue
		}
		size += askCost
		if c.Waiting != nil {
			size += c.Waiting.In.Len()
		}
		c.Parked = false
		l.Queue(c)
		if woken != nil {
			woken(c)
		}
	}
	l.parked = l.parked[:copy(l.parked, l.parked[asked:])]
	l.due -= asked
	l.goOn()
}

// goOn has the rest of a round asked in another turn.
func (l *Loop) goOn() {
	switch {
	case l.due == 0:
		l.woken = false
	case l.woken:
		l.Signal(SignalAsk)
	case !l.asking:
		l.asking = true
		time.AfterFunc(askPause, func() { l.Signal(SignalAsk) })
	}
}
