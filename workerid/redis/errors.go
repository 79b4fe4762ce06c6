package redis

import (
	"errors"

	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// Errors besides those of package workerid. All of them are certain: nothing was granted. Their texts say what an operator can do.
var (
	ErrNotInitialised = script.ErrNotInitialised // there is no pool of that name, or it is one of yaraus's; retry
	ErrNotMaster      = script.ErrNotMaster      // the server is a replica; retry, the master is looked for anew
	ErrClockBack      = script.ErrClockBack      // the server's clock is more than MaxSkew behind what it was; retry
	ErrClockForward   = script.ErrClockForward   // the server's clock went forward since anybody was heard of; retry, it is accepted once it has lasted
	ErrClockSteady    = script.ErrClockSteady    // of ResetClock: the server's clock did not go back, and nothing was done
	ErrReplicas       = script.ErrReplicas       // more replicas are connected than must have a grant; retry
	ErrHeld           = script.ErrHeld           // of Init: worker ids are held by daemons that would have to stop first

	// ErrEvicts: this Redis may evict the pool's keys when it is short of memory. Retry; set maxmemory-policy to noeviction.
	ErrEvicts = errors.New("redis: maxmemory-policy is not noeviction, so the pool's keys could be evicted")
)
