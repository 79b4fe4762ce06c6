package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// EphemeralConfig holds the settings of an Ephemeral store.
type EphemeralConfig struct {
	Workers     []uint64      // that it grants
	Fingerprint string        // of the layout; for the claim
	RunAhead    time.Duration // how far ahead of Now ids are issued, by this process and by its predecessors
	Now         func() int64  // the id clock, Unix ms
	// Floor: all ids of the run before lie at or before this Unix ms, and none will come; windows begin
	// after it. 0 = unknown.
	Floor int64
	Claim bool // find other processes of this host that have the same worker id; Linux only
}

// Ephemeral grants worker ids given by hand and remembers nothing. A window has no end. It starts the
// run-ahead past Now, which is above all ids of a predecessor whose last id was no further ahead of
// that clock. If it was, ids may repeat. That happens when the clock goes back between two runs, or
// during the previous one: a busy id clock does not follow the wall clock back, but the next run
// starts from the wall clock. Nothing is promised if another host has the same worker id.
type Ephemeral struct {
	c      EphemeralConfig
	claims []io.Closer

	mu        sync.Mutex
	held      map[uint64]workerid.Grant
	highWater map[uint64]int64 // of those that were given back
}

var _ workerid.Backend = (*Ephemeral)(nil)

// NewEphemeral makes a store without files. The error is ErrInUse.
func NewEphemeral(c EphemeralConfig) (*Ephemeral, error) {
	s := &Ephemeral{c: c, held: map[uint64]workerid.Grant{}, highWater: map[uint64]int64{}}
	for _, id := range c.Workers {
		if !c.Claim {
			break
		}
		l, err := claim(claimName(c.Fingerprint, id))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("static: worker id %d: %w", id, err), s.Close())
		}
		if l != nil {
			s.claims = append(s.claims, l)
		}
	}
	return s, nil
}

// Close gives the claims up.
func (s *Ephemeral) Close() error {
	var errs []error
	for _, l := range s.claims {
		errs = append(errs, l.Close())
	}
	s.claims = nil
	return errors.Join(errs...)
}

// Figures implements workerid.Backend. There are none.
func (s *Ephemeral) Figures(func(figure.Figure)) workerid.Condition { return workerid.Condition{} }

// Acquire implements workerid.Store.
func (s *Ephemeral) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.c.Workers {
		if _, held := s.held[id]; held || id < want.Min || id > want.Max {
			continue
		}
		g := workerid.Grant{Worker: id, Owner: want.Owner, Lo: s.c.Now() + s.c.RunAhead.Milliseconds() + 1,
			Hi: workerid.Forever}
		if s.c.Floor != 0 {
			g.Lo = s.c.Floor + 1
		}
		if mark, ok := s.highWater[id]; ok {
			g.Lo = mark + 1
		}
		s.held[id] = g
		return g, nil
	}
	return workerid.Grant{}, fmt.Errorf("%w of %d..%d", workerid.ErrNoID, want.Min, want.Max)
}

// Extend implements workerid.Store. There is nothing to extend.
func (s *Ephemeral) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]workerid.Result, len(held))
	for i, g := range held {
		if s.held[g.Worker] != g {
			results[i].Err = workerid.ErrLost
			continue
		}
		results[i].Grant = workerid.Grant{Worker: g.Worker, Owner: g.Owner, Lo: workerid.Forever, Hi: workerid.Forever - 1}
	}
	return results, nil
}

// Release implements workerid.Store.
func (s *Ephemeral) Release(_ context.Context, g workerid.Grant, last int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[g.Worker] != g {
		return workerid.ErrLost
	}
	if last < g.Lo-1 {
		return fmt.Errorf("static: worker id %d released at %d, before its window, which starts at %d", g.Worker, last, g.Lo)
	}
	delete(s.held, g.Worker)
	s.highWater[g.Worker] = last
	return nil
}
