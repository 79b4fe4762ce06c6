package redis

import (
	"log/slog"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// Errors in addition to those of package workerid. With each of them it is certain that nothing was
// granted. Their texts say what an operator can do.
var (
	ErrNotInitialised = script.ErrNotInitialised // there is no pool of that name, or it is one of yaraus's; retry
	ErrNotMaster      = script.ErrNotMaster      // the server is a replica; retry: the Store looks for the master again
	ErrClockBack      = script.ErrClockBack      // the server's clock is more than MaxSkew behind what it was; retry
	// the server's clock jumped forward since the last call; retry: it is accepted if it stays
	// there
	ErrClockForward = script.ErrClockForward
	// of ResetClock: the server's clock did not go back, and nothing was done
	ErrClockSteady = script.ErrClockSteady
	ErrReplicas    = script.ErrReplicas // more replicas are connected than must have a grant; retry
	ErrHeld        = script.ErrHeld     // of Init: daemons that must stop first hold worker ids

	// ErrEvicts: this Redis may evict the pool's keys when it is short of memory. Retry; set
	// maxmemory-policy to noeviction.
	ErrEvicts = redislink.ErrEvicts
)

// Schemes returns the schemes of Config's URLs.
func Schemes() []string { return redislink.Schemes() }

// LogTo sends the client library's log to l, for the whole process.
func LogTo(l *slog.Logger) { redislink.LogTo(l) }
