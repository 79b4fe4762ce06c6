package engines

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/epoll"
	"github.com/katsubushi/katsubushi/v3/internal/server/uring"
)

// candidates returns the engines for Linux, fastest first.
func candidates() []candidate {
	return []candidate{
		{"uring", func(c server.Config) server.Engine { return uring.New(c) }, uring.Probe},
		{"epoll", func(c server.Config) server.Engine { return epoll.New(c) }, func(int) error { return nil }},
		netCandidate(),
	}
}
