// Package turns lets the calls to a store follow one after another, each for as long as it takes.
// Callers do not wait longer than their contexts allow.
package turns

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A Turn is full while a goroutine has the turn.
type Turn chan struct{}

// New returns a Turn that nobody has.
func New() Turn { return make(Turn, 1) }

// Take takes the turn, connects and calls f. If ctx ends before f returns, f keeps running and keeps
// the turn, and its result is discarded. Otherwise heard, if not nil, is called after the result was
// delivered. The errors name the kind of store and where it is.
func Take[C, T any](ctx context.Context, turn Turn, kind, where string, connect func(context.Context) (C, error),
	f func(C) (v T, heard func(), err error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %s has not answered an earlier call yet: %w", kind, where, ctx.Err())
	}
	told := make(chan outcome)
	var connected atomic.Bool
	go func() {
		defer func() { <-turn }()
		var o outcome
		var heard func()
		// without ctx: if every call started over, a slow server would never be reached
		c, err := connect(context.WithoutCancel(ctx))
		if err == nil {
			err = ctx.Err() // nothing was sent yet
		}
		if o.err = err; err == nil {
			connected.Store(true)
			o.v, heard, o.err = f(c)
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
			return none, fmt.Errorf("%s: no connection to %s yet: %w", kind, where, ctx.Err())
		}
		return none, fmt.Errorf("%s: no answer from %s yet, the call may be carried out: %w", kind, where, ctx.Err())
	}
}
