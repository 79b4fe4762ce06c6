package server

// A conn is one connection of an event loop. There may be very many, mostly idle, so it is small, and bytes that wait are kept apart.
type conn struct {
	session Session
	waiting *waiting // nil: no bytes wait
	fd      int32    // epoll: the descriptor
	slot    int32    // place in the loop's table
	last    uint32   // sweep at which the client was last heard of
	life    uint32   // counts the connections that this place of the table has held

	more      bool // the session has more to say, or to look at, without further input
	readable  bool // there may be input in the socket
	hungUp    bool // ... and after it, its end
	eof       bool // the client will send no more
	ending    bool // the session wants the connection closed
	lingering bool // answered for the last time; what still comes is thrown away
	queued    bool // in the loop's list of connections that get another turn

	port uint8 // which of the loop's acceptors it came through

	// io_uring only: what the kernel is doing with the connection.
	receiving bool   // a receive is under way
	stopping  bool   // ... and is being cancelled
	sending   bool   // a send of waiting.out is under way
	shutting  bool   // a SHUT_WR is under way
	watching  bool   // its end of input is waited for
	closing   bool   // to be closed when nothing is under way
	spoke     uint16 // round of sends that the last one belongs to
}

// waiting is the bytes of a connection that could not be dealt with at once.
type waiting struct {
	holding
	in   queue // input that the session has left
	out  queue // output that the socket has not taken; while there is any, nothing is read
	left int   // of lingerBytes
}

func (c *conn) unsent() bool { return c.waiting != nil && c.waiting.out.len() > 0 }

// A queue is bytes that are added at the end and used up from the front.
type queue struct {
	buf []byte
	at  int
}

func (q *queue) bytes() []byte { return q.buf[q.at:] }
func (q *queue) len() int      { return len(q.buf) - q.at }

func (q *queue) add(b []byte) {
	if q.at > 0 && len(q.buf)+len(b) > cap(q.buf) {
		q.buf = q.buf[:copy(q.buf, q.bytes())]
		q.at = 0
	}
	q.buf = append(q.buf, b...)
}

func (q *queue) drop(n int) {
	if q.at += n; q.at == len(q.buf) {
		q.buf, q.at = q.buf[:0], 0
	}
}

// A table holds the connections of a loop by number. They never move, and a place that was used once is used again.
type table struct {
	chunks []*[tableChunk]conn
	free   []int32
	used   int // connections in it
}

const tableChunk = 128

func (t *table) at(slot int32) *conn { return &t.chunks[slot/tableChunk][slot%tableChunk] }

// take returns the lowest place that was given back last, or a new one.
func (t *table) take() *conn {
	if len(t.free) == 0 {
		t.grow()
	}
	slot := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return t.occupy(slot)
}

// occupy returns place slot, which somebody else keeps account of.
func (t *table) occupy(slot int32) *conn {
	for int(slot) >= len(t.chunks)*tableChunk {
		t.chunks = append(t.chunks, new([tableChunk]conn))
	}
	t.used++
	c := t.at(slot)
	*c = conn{slot: slot, life: c.life + 1}
	return c
}

func (t *table) grow() {
	from := int32(len(t.chunks) * tableChunk)
	t.chunks = append(t.chunks, new([tableChunk]conn))
	for i := int32(tableChunk - 1); i >= 0; i-- {
		t.free = append(t.free, from+i)
	}
}

// vacate empties a place, for the next connection.
func (t *table) vacate(c *conn) {
	*c = conn{slot: c.slot, life: c.life + 1}
	t.used--
}

// all calls f for every connection. f may vacate the one it is called for.
func (t *table) all(f func(*conn)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if chunk[i].session != nil {
				f(&chunk[i])
			}
		}
	}
}
