package engines

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/uring"
)

// strained returns engines with tiny queues and buffers, so that the cases that happen only when
// they are full do happen.
func strained() []candidate {
	if uring.Probe(2) != nil {
		return nil
	}
	return []candidate{{"tinyuring", func(c server.Config) server.Engine {
		e := uring.New(c)
		e.Sizes = uring.Sizes{Submissions: 2, Completions: 4, Buffers: 1, MaxBuffers: 2, BufferSize: 100,
			Replies: 2 * server.ReplyFull}
		return e
	}, nil}}
}
