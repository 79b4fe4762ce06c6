// Package orders has ids from katsubushi for models.
package orders

import (
	"context"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3"
)

// patience is how long an INSERT waits for its ids.
const patience = 2 * time.Second

// ids is one source for the whole program, which Open of daemons.go or of library.go sets. Goroutines share it.
var ids katsubushi.Source

// Next returns an id. Ids have 63 bits, so that int64 and bigint hold them.
func Next(ctx context.Context) (int64, error) {
	some, err := Take(ctx, 1)
	if err != nil {
		return 0, err
	}
	return some[0], nil
}

// Take returns n ids, up to 10,000 at once.
func Take(ctx context.Context, n int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	some, err := ids.IDs(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("no id: %w", err)
	}
	taken := make([]int64, n)
	for i, id := range some {
		taken[i] = int64(id)
	}
	return taken, nil
}
