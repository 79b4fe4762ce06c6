package loop

import (
	"github.com/katsubushi/katsubushi/v3/internal/peers"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A Conn is one connection of an event loop. There may be very many, mostly idle, so it is small;
// waiting bytes are kept elsewhere.
type Conn struct {
	Session server.Session
	Waiting *Waiting // nil: no bytes wait
	FD      int32    // epoll: the descriptor
	Slot    int32    // index in the loop's table
	Last    uint32   // sweep at which the client was last active
	Life    uint32   // how many connections this slot has held before

	More      bool // the session has more to say, or to look at, without further input
	Readable  bool // there may be input in the socket
	HungUp    bool // ... and after it, the end of input
	EOF       bool // the client will send no more
	Ending    bool // the session wants the connection closed
	Lingering bool // the last reply is sent; further input is discarded
	Queued    bool // in the loop's list of connections that get another turn
	Parked    bool // the session waits, see parking_linux.go; More is set, too
	Gone      bool // nothing can be sent to the client any more
	Held      bool // the loop is frozen, and the session must not be fed

	Port uint8 // index of the loop's acceptor that it came through

	// io_uring only: what the kernel is doing with the connection.
	Receiving bool   // a receive is under way
	Stopping  bool   // ... and is being cancelled
	Sending   bool   // a send of waiting.out is under way
	Shutting  bool   // a SHUT_WR is under way
	Watching  bool   // a poll for the end of input is under way
	Closing   bool   // to be closed when nothing is under way
	Pours     bool   // its last input filled a buffer, or there was none
	Spoke     uint16 // round of sends that its last one belongs to

	Peer  peers.Peer // where it comes from, once it holds something; see Loop.Learn
	since uint32     // stamp of when the session began to wait for what it has not answered yet; 0 = it does not
}

// Waiting holds the bytes of a connection that could not be handled at once.
type Waiting struct {
	server.Holding
	In   queue // input that the session has left
	Out  queue // output that the socket has not taken; while there is any, nothing is read
	Left int   // how much of server.LingerBytes is left
}

// Unsent reports whether the socket has yet to take some output.
func (c *Conn) Unsent() bool { return c.Waiting != nil && c.Waiting.Out.Len() > 0 }

// A queue holds bytes that are appended at the end and removed from the front.
type queue struct {
	buf []byte
	at  int
}

func (q *queue) Bytes() []byte { return q.buf[q.at:] }
func (q *queue) Len() int      { return len(q.buf) - q.at }

func (q *queue) add(b []byte) {
	if q.at > 0 && len(q.buf)+len(b) > cap(q.buf) {
		q.buf = q.buf[:copy(q.buf, q.Bytes())]
		q.at = 0
	}
	q.buf = append(q.buf, b...)
}

func (q *queue) Drop(n int) {
	if q.at += n; q.at == len(q.buf) {
		q.buf, q.at = q.buf[:0], 0
	}
}

// A table holds the connections of a loop by slot number. They never move, and slots are reused.
type table struct {
	chunks []*[tableChunk]Conn
	Free   []int32
	Used   int // connections in it
}

const tableChunk = 128

func (t *table) At(slot int32) *Conn { return &t.chunks[slot/tableChunk][slot%tableChunk] }

// Take returns the slot that was given back last, or a new one.
func (t *table) Take() *Conn {
	if len(t.Free) == 0 {
		t.grow()
	}
	slot := t.Free[len(t.Free)-1]
	t.Free = t.Free[:len(t.Free)-1]
	return t.Occupy(slot)
}

// Occupy returns the given slot. The caller keeps track of which slots are in use.
func (t *table) Occupy(slot int32) *Conn {
	for int(slot) >= len(t.chunks)*tableChunk {
		t.chunks = append(t.chunks, new([tableChunk]Conn))
	}
	t.Used++
	c := t.At(slot)
	*c = Conn{Slot: slot, Life: c.Life + 1}
	return c
}

func (t *table) grow() {
	from := int32(len(t.chunks) * tableChunk)
	t.chunks = append(t.chunks, new([tableChunk]Conn))
	for i := int32(tableChunk - 1); i >= 0; i-- {
		t.Free = append(t.Free, from+i)
	}
}

// vacate resets a slot for its next connection.
func (t *table) vacate(c *Conn) {
	*c = Conn{Slot: c.Slot, Life: c.Life + 1}
	t.Used--
}

// All calls f for every connection. f may vacate the connection it is called for.
func (t *table) All(f func(*Conn)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if chunk[i].Session != nil {
				f(&chunk[i])
			}
		}
	}
}
