package workerid

import (
	"context"
	"time"
)

// An Admin is the operator's interface to a pool of worker ids. Its times are from the store's clock,
// its errors are those of a Store.
type Admin interface {
	// Init makes the pool or changes its settings, and returns one of the results below. It needs
	// all of the Terms.
	Init(ctx context.Context, how How) (result string, err error)
	// List lists the worker ids, in the order in which they are given out.
	List(ctx context.Context) ([]Lease, error)
	// Release ends a lease for its owner. If the owner is alive, it uses up its window and gets
	// another worker id.
	Release(ctx context.Context, worker uint64) (Freed, error)
	Close() error
}

// Only some stores have these.
type (
	// A StatsAdmin reports the pool's counters.
	StatsAdmin interface {
		Stats(ctx context.Context) (Report, error)
	}
	// A ReplicasAdmin sets how many replicas must have a grant before it counts; −1: each daemon's
	// own setting applies.
	ReplicasAdmin interface {
		Replicas(ctx context.Context) (Report, error)
		SetReplicas(ctx context.Context, n int) error
	}
	// A ClockAdmin accepts the store's clock after it was set back, or lowers what a wrong clock has
	// left behind.
	ClockAdmin interface {
		ResetClock(ctx context.Context) (Report, error)
	}
	// A RestoredAdmin is told that an earlier state of the store was restored, before daemons are let
	// in. Worker ids are available when every lease that was forgotten is over.
	RestoredAdmin interface {
		Restored(ctx context.Context) (Report, error)
	}
)

// A Report is an answer whose form depends on the store. encoding/json writes it for programs, Rows
// for people.
type Report interface{ Rows() []Row }

// A Row is one line of a Report.
type Row struct {
	Name  string
	Value any // a zero time is unknown
}

// How tells Init what to do. A store refuses the ways that it does not support.
type How string

const (
	// a pool of this name may have been used: its worker ids are available one lease later
	InitWait How = "wait"
	InitNew  How = "new" // it was never used, or all its daemons have stopped and given their leases back
	// new settings, after all daemons have stopped; worker ids are available one lease later
	InitReplace  How = "replace"
	InitRepair   How = "repair"   // records of worker ids are missing: make them, and wait one lease
	InitMigrated How = "migrated" // the last client of the program that had the pool before us has left
)

// The results of Init.
const (
	InitMade     = "made"     // a new pool; worker ids are available at once
	InitWaiting  = "waiting"  // worker ids are available one lease later
	InitAdopted  = "adopted"  // another program's pool, which its clients may keep using for now
	InitFinished = "migrated" // that program's clients must not come back
	InitPresent  = "present"  // there was nothing to do
)

// A Lease is what the pool knows of one worker id.
type Lease struct {
	Worker   uint64    `json:"id"`
	Owner    string    `json:"client_id"`     // the holder, or the last one if it did not give it back
	ExpireAt time.Time `json:"expire_at"`     // available afterwards; 1970, as in yaraus, = never used
	Using    bool      `json:"using"`         // not available
	TTL      float64   `json:"ttl"`           // seconds until available; negative: since then; 0: never used
	From     time.Time `json:"from,omitzero"` // the window of ids that Owner was granted; zero if unknown
	Until    time.Time `json:"until,omitzero"`
	Note     string    `json:"note,omitempty"` // what an operator must know of it
}

// Freed describes the lease that Release ended.
type Freed struct {
	Owner    string    `json:"client_id"`          // the holder, or the last one
	ExpireAt time.Time `json:"expire_at,omitzero"` // when its lease would have ended
	Until    time.Time `json:"until,omitzero"`     // the end of the window: the next one starts after it
}
