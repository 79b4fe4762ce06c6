package ledger

import (
	"context"
	"errors"
	"sync/atomic"
)

// A Gate lets so many goroutines at once ask a store whose calls may block, whatever their contexts say.
type Gate struct {
	slots    chan struct{} // one token for each goroutine that asks
	noAnswer func(cause error) error
	closed   atomic.Bool
}

// NewGate makes a Gate. noAnswer is the error for a call whose context has ended.
func NewGate(atOnce int, noAnswer func(cause error) error) *Gate {
	return &Gate{slots: make(chan struct{}, atOnce), noAnswer: noAnswer}
}

// Do runs f in a goroutine, see Driver.
func (g *Gate) Do(ctx context.Context, f func() error) error {
	switch err := ctx.Err(); {
	case g.closed.Load():
		return errors.New("the counter store is closed")
	case err != nil:
		return g.noAnswer(err)
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return g.noAnswer(ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		err := f()
		<-g.slots
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return g.noAnswer(ctx.Err())
	}
}

// Close makes Do refuse, and reports whether it did not yet.
func (g *Gate) Close() bool { return !g.closed.Swap(true) }

// Closed reports whether Close was called.
func (g *Gate) Closed() bool { return g.closed.Load() }
