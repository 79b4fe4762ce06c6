//go:build !library

package orders

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/katsubushi/katsubushi/v3/client"
)

// Open is called by main. The client asks the second daemon if the first has no ids, with one request for many
// goroutines and for up to 10,000 ids. It leaves a daemon that failed alone for much less than an INSERT waits.
func Open(context.Context) (io.Closer, error) {
	daemons := strings.Split(cmp.Or(os.Getenv("IDS"), "127.0.0.1:11212"), ",")
	c, err := client.New(client.Static(daemons...), client.Config{MaxBackoff: patience / 4})
	if err != nil {
		return nil, err
	}
	ids = c.Generator("orders") // a name that the daemons do not declare gets plain ids
	return c, nil
}
