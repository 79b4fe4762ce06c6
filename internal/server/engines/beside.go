package engines

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/std"
)

// A beside serves encrypted ports with the portable engine and the others with another engine, at
// the same time. The two share everything in their Config, including the connection limit and the
// budget.
type beside struct {
	server.Engine // for the unencrypted ports
	net           *std.Engine
}

// newBeside adds a portable engine to e that serves the encrypted ports. c must be e's Config.
func newBeside(e server.Engine, c server.Config) server.Engine {
	if n, ok := e.(*std.Engine); ok {
		return n
	}
	return &beside{e, std.New(c)}
}

// Wake implements Engine.
func (b *beside) Wake() {
	b.Engine.Wake()
	b.net.Wake()
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
	switch {
	case encrypted == nil:
		return b.Engine.Serve(ctx, plain)
	case plain == nil:
		return b.net.Serve(ctx, encrypted)
	}
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
