// Package orders has ids from katsubushi for models.
package orders

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
)

// patience is how long an INSERT waits for its ids, all daemons together.
const patience = 2 * time.Second

// ids is one client for the whole program. Goroutines share its requests. It asks the second daemon if the
// first has no ids, and leaves a daemon that failed alone for much less than an INSERT waits.
var ids = open()

func open() *client.Generator {
	daemons := strings.Split(cmp.Or(os.Getenv("IDS"), "127.0.0.1:11212"), ",")
	c, err := client.New(client.Static(daemons...), client.Config{MaxBackoff: patience / 4})
	if err != nil {
		panic(err) // an address is wrong
	}
	return c.Generator("orders") // a name that the daemons do not declare gets plain ids
}

// Next returns an id. Ids have 63 bits, so that int64 and bigint hold them.
func Next(ctx context.Context) (int64, error) {
	some, err := Take(ctx, 1)
	if err != nil {
		return 0, err
	}
	return some[0], nil
}

// Take returns n ids, with one request for up to 10,000.
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
