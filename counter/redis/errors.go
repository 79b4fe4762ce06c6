package redis

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// Errors besides those of packages counter and line. Nothing was granted after them, and to retry helps
// once an operator has mended the cause.
var (
	ErrNotMaster   = errors.New("the server is not a master")
	ErrSkew        = errors.New("the clocks of Redis and of this host differ too much")
	ErrReplicas    = errors.New("more replicas are connected than must have a grant")
	ErrUnconfirmed = errors.New("too few replicas")
	ErrNoReplicas  = errors.New("replicas=K is missing")

	errNoDisk = errors.New("it forgets everything when it restarts") // a setting of the server
)

// later reports whether a daemon that starts can wait until an error is over: Redis does not answer, or
// takes no writes, or its replicas do not have them. What is wrong with a record is not over later, though
// the cause may look like a lost connection: the text of one that is cut off ends with an unexpected EOF.
func later(err error) bool {
	if counter.Certain(err) {
		return false
	}
	for _, e := range []error{ErrNotMaster, ErrSkew, ErrReplicas, ErrUnconfirmed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.Is(err, line.ErrNotSafe) && !errors.Is(err, errNoDisk) && !errors.Is(err, redislink.ErrNoWaitAOF) ||
		redislink.Temporary(err)
}
