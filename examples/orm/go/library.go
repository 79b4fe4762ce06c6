//go:build library

package orders

import (
	"cmp"
	"context"
	"io"
	"os"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// Open is called by main. The program leases a worker id from the pool that katsubushi lease init has made, beside
// daemons, and issues ids itself. Close gives the worker id back.
func Open(ctx context.Context) (io.Closer, error) {
	pool := cmp.Or(os.Getenv("POOL"), "redis://127.0.0.1:6379")
	own, err := katsubushi.Open(ctx, katsubushi.Config{Store: redis.Leased(pool)})
	if err != nil {
		return nil, err
	}
	ids = own
	return own, nil
}
