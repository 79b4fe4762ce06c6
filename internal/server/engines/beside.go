package engines

import (
	"context"
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/std"
)

// A beside is an engine whose encrypted ports are served by the portable one, at the same time. The two share what is in their
// Config, the limit of connections and the budget among it.
type beside struct {
	server.Engine // for the others
	net           *std.Engine
}

// newBeside has the encrypted ports of e served by a portable engine of configuration c, which must be e's.
func newBeside(e server.Engine, c server.Config) server.Engine {
	if n, ok := e.(*std.Engine); ok {
		return n
	}
	return &beside{e, std.New(c)}
}

// Serve implements Engine. When one of the engines fails the other one is drained.
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
