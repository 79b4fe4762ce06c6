package redislink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
)

// A Wire is a Link to the master of a Target. When the Link breaks, the Wire looks for the master again.
// Only the goroutine that has the turn, in Take, uses it.
type Wire struct {
	Target        Target
	Key           string      // in a cluster, the node that has it is the master
	TLS           *tls.Config // for URLs with TLS; nil = the system's certificates
	AllowEviction bool        // accept a server that may evict keys

	Turn   chan struct{} // full while a goroutine has the turn
	Link   *Link         // nil while there is none
	where  string        // the address from the URL, without secrets
	closed bool
}

var errClosed = errors.New("redis: the store is closed")

// NewWire makes a Wire that is not connected yet.
func NewWire(t Target, key string, custom *tls.Config, allowEviction bool) *Wire {
	return &Wire{Target: t, Key: key, TLS: custom, AllowEviction: allowEviction, Turn: make(chan struct{}, 1), where: t.Where()}
}

// Where lists the servers in the URL. It does not need the turn.
func (w *Wire) Where() string { return w.where }

// Take takes the turn, connects if necessary and calls f. If ctx ends before f returns, f keeps
// running and keeps the turn, and its result is discarded. Otherwise heard, if not nil, is called
// after the result was delivered.
func Take[T any](ctx context.Context, w *Wire, f func(*Link) (v T, heard func(), err error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	select {
	case w.Turn <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("redis: %s has not answered an earlier call yet: %w", w.where, ctx.Err())
	}
	told := make(chan outcome)
	var connected atomic.Bool
	go func() {
		defer func() { <-w.Turn }()
		var o outcome
		var heard func()
		// without ctx: if every call started over, a slow server would never be reached
		l, err := w.connect(context.WithoutCancel(ctx))
		if err == nil {
			err = ctx.Err() // nothing was sent yet
		}
		if o.err = err; err == nil {
			connected.Store(true)
			o.v, heard, o.err = f(l)
		}
		select {
		case told <- o:
			if heard != nil {
				heard()
			}
		case <-ctx.Done():
		}
	}()
	select {
	case o := <-told:
		return o.v, o.err
	case <-ctx.Done():
		if !connected.Load() {
			return none, fmt.Errorf("redis: no connection to %s yet: %w", w.where, ctx.Err())
		}
		return none, fmt.Errorf("redis: no answer from %s yet, the call may be carried out: %w", w.where, ctx.Err())
	}
}

// connect returns the Link, and makes one if there is none.
func (w *Wire) connect(ctx context.Context) (*Link, error) {
	if w.closed {
		return nil, errClosed
	}
	if w.Link == nil {
		addr, err := w.Target.Find(ctx, w.Key, w.TLS)
		if err != nil {
			return nil, err
		}
		if w.Link, err = Open(ctx, At(w.Target.Options, addr, w.TLS), w.AllowEviction); err != nil {
			w.Target.Doubt()
			return nil, err
		}
	}
	return w.Link, nil
}

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
