package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A wire carries calls to the master over a link. When the link breaks, the wire looks for the master
// again. Only the goroutine that has the turn uses the wire.
type wire struct {
	c       Config
	target  target
	where   string // Redis's address from the URL, without secrets
	keys    []string
	needed  int // replicas to wait for
	scripts map[string]script.Script
	prepare func(script.Call) (script.Script, []string) // what is sent for a call; load

	turn   chan struct{} // full while a goroutine has the turn
	link   *link
	closed bool
}

// looked is the end of the error text for a missing pool.
func (w *wire) looked() string {
	return fmt.Sprintf("; it was looked for at %s as ns=%s", w.where, w.target.namespace)
}

var errClosed = errors.New("redis: the store is closed")

func newWire(c Config, t target) *wire {
	w := &wire{
		c: c, target: t, where: t.where(), keys: script.Keys(t.namespace, t.kind == cluster), needed: c.Replicas, scripts: map[string]script.Script{},
		turn: make(chan struct{}, 1),
	}
	w.prepare = w.load
	return w
}

// load returns a call's script and arguments.
func (w *wire) load(c script.Call) (script.Script, []string) {
	s, ok := w.scripts[c.Script()]
	if !ok {
		s = script.Load(c.Script())
		w.scripts[s.Name] = s
	}
	return s, c.Args()
}

// take takes the turn, connects if necessary and calls f. If ctx ends before f returns, f keeps
// running and keeps the turn, and its result is discarded. Otherwise heard, if not nil, is called
// after the result was delivered.
func take[T any](ctx context.Context, w *wire, f func(*link) (v T, heard func(), err error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("redis: %s has not answered an earlier call yet: %w", w.where, ctx.Err())
	}
	told := make(chan outcome)
	var connected atomic.Bool
	go func() {
		defer func() { <-w.turn }()
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

// connect returns the link, and makes one if there is none.
func (w *wire) connect(ctx context.Context) (*link, error) {
	if w.closed {
		return nil, errClosed
	}
	if w.link == nil {
		addr, err := w.target.find(ctx, w.keys[0], w.c.TLS)
		if err != nil {
			return nil, err
		}
		if w.link, err = open(ctx, at(w.target.options, addr, w.c.TLS), w.c.AllowEviction); err != nil {
			w.target.doubt()
			return nil, err
		}
	}
	return w.link, nil
}

// run carries out a call. After any error except a refusal it closes the link, because the master may
// have moved.
func (w *wire) run(c script.Call) (reply any, have int, err error) {
	s, args := w.prepare(c)
	reply, have, err = w.link.run(s, w.keys, args, w.needed)
	if err != nil && (!certain(err) || errors.Is(err, script.ErrNotMaster)) {
		w.drop()
		w.target.doubt()
		err = fmt.Errorf("redis: %w", err)
	}
	return reply, have, err
}

// confirm counts the replicas that have what was written, if more are needed than run waited for.
func (w *wire) confirm(needed, have int) (int, error) {
	if w.needed >= needed {
		return have, nil
	}
	have, err := w.link.wait(needed)
	if err != nil {
		w.drop()
	}
	return have, err
}

func (w *wire) addr() string {
	if w.link == nil {
		return ""
	}
	return w.link.addr
}

func (w *wire) drop() {
	if w.link != nil {
		w.link.close()
		w.link = nil
	}
}

func (w *wire) close() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.closed = true
	w.drop()
	return nil
}
