package redislink

import (
	"context"
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/turns"
)

// A Wire is a Link to the master of a Target. When the Link breaks, the Wire looks for the master again.
// Only the goroutine that has the turn, in Take, uses it.
type Wire struct {
	Target        Target
	Key           string // in a cluster, the node that has it is the master
	AllowEviction bool   // accept a server that may evict keys

	Turn    turns.Turn
	Link    *Link // nil while there is none
	opened  time.Time
	suspect bool   // see Suspect
	where   string // the address from the URL, without secrets
	closed  bool
}

// trust is how long a new Link is used even if it is suspect, so that a daemon asks Sentinels once a second
// while a replica is away.
const trust = time.Second

var errClosed = errors.New("redis: the store is closed")

// NewWire makes a Wire that is not connected yet.
func NewWire(t Target, key string, allowEviction bool) *Wire {
	return &Wire{Target: t, Key: key, AllowEviction: allowEviction, Turn: turns.New(), where: t.Where()}
}

// Where lists the servers in the URL. It does not need the turn.
func (w *Wire) Where() string { return w.where }

// Take takes the turn, connects if necessary and calls f, see turns.Take.
func Take[T any](ctx context.Context, w *Wire, f func(*Link) (v T, heard func(), err error)) (T, error) {
	return turns.Take(ctx, w.Turn, "redis", w.where, w.connect, f)
}

// connect returns the Link, and makes one if there is none.
func (w *Wire) connect(ctx context.Context) (_ *Link, err error) {
	if w.closed {
		return nil, errClosed
	}
	if w.Link != nil && w.suspect && time.Since(w.opened) >= trust {
		w.Drop()
		w.Target.Doubt()
	}
	if w.Link == nil {
		if w.Link, err = w.Target.Open(ctx, w.Key, w.AllowEviction); err != nil {
			return nil, err
		}
		w.opened, w.suspect = time.Now(), false
	}
	return w.Link, nil
}

// Suspect is called when the server is a master without the replicas that it should have: another server may
// be the master by now, which this one has not heard of. A later call looks for the master again, and asks
// another Sentinel or node first, as the last one may be cut off too.
func (w *Wire) Suspect() { w.suspect = true }

// Addr is the master's address, or "".
func (w *Wire) Addr() string {
	if w.Link == nil {
		return ""
	}
	return w.Link.Addr
}

// Drop closes the Link. The next call looks for the master again.
func (w *Wire) Drop() {
	if w.Link != nil {
		w.Link.Close()
		w.Link = nil
	}
}

// Close waits for its turn and closes the Link for good.
func (w *Wire) Close() error {
	w.Turn <- struct{}{}
	defer func() { <-w.Turn }()
	w.closed = true
	w.Drop()
	return nil
}
