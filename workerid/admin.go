package workerid

import (
	"context"
	"time"
)

// An Admin is an operator's side of a pool of worker ids. Its times are those of the store's clock, its errors those of a Store.
type Admin interface {
	// Init makes the pool, or changes what it is, and returns one of the results below. It needs all of the Terms.
	Init(ctx context.Context, how How) (result string, err error)
	// List lists the worker ids, in the order in which they are given out.
	List(ctx context.Context) ([]Lease, error)
	// Release ends a lease in its owner's place. Should that one live, it uses up its window and gets another worker id.
	Release(ctx context.Context, worker uint64) (Freed, error)
	Close() error
}

// What only some stores have.
type (
	// A StatsAdmin counts what happened.
	StatsAdmin interface {
		Stats(ctx context.Context) (Report, error)
	}
	// A ReplicasAdmin says how many replicas must have a grant before it counts; −1: what each daemon's own setting says.
	ReplicasAdmin interface {
		Replicas(ctx context.Context) (Report, error)
		SetReplicas(ctx context.Context, n int) error
	}
	// A ClockAdmin accepts the store's clock after it was set back.
	ClockAdmin interface {
		ResetClock(ctx context.Context) (Report, error)
	}
)

// A Report is an answer of a shape that only one store has. For programs it is written as encoding/json does, for people by rows.
type Report interface{ Rows() []Row }

// A Row is one line of a Report.
type Row struct {
	Name  string
	Value any // zero times are those that are not known
}

// How says what Init is to do. A store refuses what it has not.
type How string

// The ways.
const (
	InitWait     How = "wait"     // somebody may have used a pool of this name: its worker ids come one lease later
	InitNew      How = "new"      // nobody ever did, or all who did have stopped and given their leases back
	InitReplace  How = "replace"  // other settings, for daemons that have all stopped; its worker ids come one lease later
	InitMigrated How = "migrated" // the last client of the program that the pool was taken over from has left
)

// What came of Init.
const (
	InitMade     = "made"     // a new pool, whose worker ids can be had at once
	InitWaiting  = "waiting"  // a pool whose worker ids come one lease later
	InitAdopted  = "adopted"  // another program's pool, which its clients may go on using for now
	InitFinished = "migrated" // that program's clients may not come back
	InitPresent  = "present"  // nothing was to be done
)

// A Lease is what the pool knows of one worker id.
type Lease struct {
	Worker   uint64    `json:"id"`
	Owner    string    `json:"client_id"`     // who has it, or had it last and did not give it back
	ExpireAt time.Time `json:"expire_at"`     // it can be had afterwards; 1970, as yaraus says: never used
	Using    bool      `json:"using"`         // it cannot be had
	TTL      float64   `json:"ttl"`           // until it can, in s; negative: since then; 0: never used
	From     time.Time `json:"from,omitzero"` // the window of ids that Owner was granted; zero if it is not known
	Until    time.Time `json:"until,omitzero"`
}

// Freed is what Release found.
type Freed struct {
	Owner    string    `json:"client_id"`          // who had the worker id, or had it last
	ExpireAt time.Time `json:"expire_at,omitzero"` // when its lease would have ended
	Until    time.Time `json:"until,omitzero"`     // the end of the window: the next one starts after it
}
