package issuer

import (
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// A queue is the bulk requests that wait for their next tick. They get id.ErrWait and are woken in that tick; those
// that find it used up by others join again. Who is first is not the queue's decision: an event loop asks its
// connections in the order in which they began to wait.
//
// The queue is as long as the ids of MaxPark: a client in a longer one would wait longer than that, and is refused. A
// request that asks again in the same tick, because something else has woken it, counts twice.
type queue struct {
	room   int64        // ids
	wanted atomic.Int64 // ids that the requests want that have joined since the last Wake
	waking atomic.Bool  // there will be a Wake
}

func (q *queue) open(l generator.Layout, lanes int) {
	ticks := max(1, MaxPark.Milliseconds()/l.Unit)
	q.room = ticks * int64(l.MaxSequence()+1) * int64(lanes)
}

// join reports whether a request for n ids may wait until wake is called, in the next tick. That is wait away.
func (q *queue) join(n int, wait time.Duration, wake func()) bool {
	if wait > MaxPark || q.wanted.Add(int64(n)) > q.room {
		return false
	}
	if q.waking.CompareAndSwap(false, true) {
		time.AfterFunc(wait, func() {
			q.wanted.Store(0)
			q.waking.Store(false) // before the Wake: a client that still sees true is woken
			wake()
		})
	}
	return true
}

// waiting reports whether requests may wait.
func (q *queue) waiting() bool { return q.waking.Load() }
