package redis

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// Errors besides those of packages counter and line. Nothing was granted after them, and to retry helps
// once somebody has mended the cause.
var (
	ErrNotMaster   = errors.New("the server is not a master")
	ErrSkew        = errors.New("the clocks of Redis and of this host differ too much")
	ErrReplicas    = errors.New("more replicas are connected than must have a grant")
	ErrUnconfirmed = errors.New("too few replicas have what was written")

	errNoDisk = errors.New("it forgets everything when it restarts") // a setting of the server
)

// later reports whether a daemon that starts can wait until an error is over: Redis does not answer, or
// takes no writes, or its replicas do not have them.
func later(err error) bool {
	for _, e := range []error{ErrNotMaster, ErrSkew, ErrReplicas, ErrUnconfirmed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.Is(err, line.ErrNotSafe) && !errors.Is(err, errNoDisk) && !errors.Is(err, redislink.ErrNoWaitAOF) || redislink.Temporary(err)
}

// unavailable is a counter.ErrUnavailable in the words of its cause.
type unavailable struct{ error }

func (u unavailable) Unwrap() []error { return []error{counter.ErrUnavailable, u.error} }
