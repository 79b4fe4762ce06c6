package engines

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/std"
	"sync/atomic"
)

// A beside serves encrypted ports with the portable engine and the others with another engine, at
// the same time. The two share everything in their Config, including the connection limit and the
// budget.
type beside struct {
	server.Engine // for the unencrypted ports
	net           *std.Engine
	serving       atomic.Pointer[[]server.Engine] // those that have ports; nil before and after Serve
}

// newBeside adds a portable engine to e that serves the encrypted ports. c must be e's Config.
func newBeside(e server.Engine, c server.Config) server.Engine {
	if n, ok := e.(*std.Engine); ok {
		return n
	}
	return &beside{Engine: e, net: std.New(c)}
}

// Wake implements Engine.
func (b *beside) Wake() {
	b.Engine.Wake()
	b.net.Wake()
}

// Freeze implements server.Mover. The encrypted connections come first: they take a moment, in which
// the others are still served.
func (b *beside) Freeze(ctx context.Context) (moved []server.Moved, err error) {
	engines := b.serving.Load()
	if engines == nil {
		return nil, server.ErrIdle
	}
	for i, e := range *engines {
		given, err := e.Freeze(ctx)
		if err != nil {
			for _, e := range (*engines)[:i] {
				e.Thaw(nil) // only the last engine gives connections away
			}
			return nil, err
		}
		moved = append(moved, given...)
	}
	return moved, nil
}

// Thaw implements server.Mover.
func (b *beside) Thaw(moved []server.Moved) error {
	engines := b.serving.Load()
	if engines == nil {
		return server.ErrIdle
	}
	for i, e := range *engines {
		if i < len(*engines)-1 {
			e.Thaw(nil)
		} else if err := e.Thaw(moved); err != nil {
			return err
		}
	}
	return nil
}

// Adopt implements server.Mover.
func (b *beside) Adopt(m server.Moved) error {
	engines := b.serving.Load()
	if engines == nil {
		return server.ErrIdle
	}
	return (*engines)[len(*engines)-1].Adopt(m)
}

// Serve implements Engine. When one of the two engines fails, the other is drained.
func (b *beside) Serve(ctx context.Context, ports []server.Port) error {
	var plain, encrypted []server.Port
	for _, p := range ports {
		if p.TLS != nil {
			encrypted = append(encrypted, p)
		} else {
			plain = append(plain, p)
		}
	}
	defer b.serving.Store(nil)
	switch {
	case encrypted == nil:
		b.serving.Store(&[]server.Engine{b.Engine})
		return b.Engine.Serve(ctx, plain)
	case plain == nil:
		b.serving.Store(&[]server.Engine{b.net})
		return b.net.Serve(ctx, encrypted)
	}
	b.serving.Store(&[]server.Engine{b.net, b.Engine})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- b.net.Serve(ctx, encrypted)
	}()
	err := b.Engine.Serve(ctx, plain)
	cancel()
	return errors.Join(err, <-ended)
}
