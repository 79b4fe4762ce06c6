package httpapi

import (
	"container/list"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections keeps the connections of a server to a limit of their own, so that HTTP takes none of the memcached port's, nor the other way
// round. At the limit a newcomer gets the place of a connection that is asked for nothing: of the one that has been idle between two
// requests for longest, else of the one that has been open for longest without a byte. Where all are at work, it is refused.
type connections struct {
	max     int // 0 = no limit
	open    *atomic.Int64
	refused *atomic.Uint64

	mu   sync.Mutex
	at   map[net.Conn]*list.Element // what is open: the place in one of the lists, or where it was before it went to work
	idle list.List                  // of net.Conn, the longest idle first
	mute list.List                  // of net.Conn that have sent nothing yet, the oldest first
}

func newConnections(c Config) *connections {
	return &connections{
		max: c.MaxConnections, open: &c.Counters.Connections, refused: &c.Counters.ConnectionsRefused, at: make(map[net.Conn]*list.Element),
	}
}

// refusal is what a connection over the limit is told.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nCache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// changed is the server's ConnState. For a new connection it is called before anything is read.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place := c.at[conn]; place != nil {
		c.idle.Remove(place) // does nothing to another list's
		c.mute.Remove(place)
	}
	switch state {
	case http.StateNew:
		if c.max > 0 && len(c.at) >= c.max && !c.makeRoom() {
			c.refused.Add(1)
			io.WriteString(conn, refusal) // into an empty socket buffer: does not block
			conn.Close()
			return // without a place; it ends with StateClosed like all
		}
		c.at[conn] = c.mute.PushBack(conn)
	case http.StateIdle:
		c.at[conn] = c.idle.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		delete(c.at, conn)
	}
	c.open.Store(int64(len(c.at)))
}

// makeRoom closes a connection that is asked for nothing, if there is one.
func (c *connections) makeRoom() bool {
	for _, l := range []*list.List{&c.idle, &c.mute} {
		if oldest := l.Front(); oldest != nil {
			conn := l.Remove(oldest).(net.Conn)
			delete(c.at, conn)
			conn.Close()
			return true
		}
	}
	return false
}
