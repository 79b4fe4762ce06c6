package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A Store is a daemon's connection to a pool. It implements workerid.Store. Any goroutine may call it;
// calls are carried out one after another.
type Store struct {
	c     Config
	terms script.Terms
	wire  *wire
	peers string // key of the announced daemons' names
	raus  *raus  // nil unless Config.HoldRaus

	memory script.Memory // used only by the holder of the wire's turn
	warned map[string]bool

	mu     sync.Mutex
	status Status
}

var _ workerid.Backend = (*Store)(nil)

// Status is what a Store knows about the server from the last answer. Until the server has granted
// something, only Ahead may be set.
type Status struct {
	Addr        string        // host:port
	Incarnation string        // the incarnation, see package script; it changes when grants may have been forgotten
	Ahead       time.Duration // the server's clock − this daemon's
	Needed      int           // replicas that must have a grant
	Replicas    int           // replicas that are connected
}

// Open makes a Store. It does not connect yet, so Redis need not be running.
func Open(c Config) (*Store, error) {
	c.Terms = c.WithDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	s := &Store{c: c, terms: c.terms(), wire: newWire(c, t), peers: peersKey(t), warned: map[string]bool{}}
	if c.HoldRaus != "" {
		s.raus = newRaus(c, t)
	}
	return s, nil
}

// Close closes the connections. It does not give leases back.
func (s *Store) Close() error {
	if s.raus != nil {
		s.raus.close()
	}
	return s.wire.Close()
}

// Status returns what is known about the server.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Figures implements workerid.Backend.
func (s *Store) Figures(emit func(figure.Figure)) workerid.Condition {
	server := s.Status()
	if server == (Status{}) {
		return workerid.Condition{}
	}
	emit(figure.Figure{
		Stat: "lease_redis_clock_ahead_ms", Metric: "lease_redis_clock_ahead_seconds", Value: server.Ahead,
		Help: "Redis's clock minus the id clock.",
		Worry: "more than a second either way, half of the default `-max-skew`: correct it before Redis refuses " +
			"extensions",
	})
	if server.Incarnation == "" {
		return workerid.Condition{ClockAhead: server.Ahead}
	}
	figure.Info(emit, "lease_redis",
		"The source of the leases; the history changes with the server, or when it has lost data. Always 1.",
		"`count(count by (history) (katsubushi_lease_redis_info)) > 1` for a minute: daemons of one pool talk to "+
			"two masters",
		"addr", "address", server.Addr, "history", "history", server.Incarnation)
	emit(figure.Figure{
		Stat: "lease_redis_replicas", Metric: "lease_redis_replicas", Value: server.Replicas,
		Help: "Connected replicas.",
		Worry: "below the number needed, if that is not 0: leases are not extended. Bring the replica back, or " +
			"`lease replicas`",
	})
	emit(figure.Figure{
		Stat: "lease_redis_replicas_needed", Metric: "lease_redis_replicas_needed", Value: server.Needed,
		Help: "Replicas that must have a lease before it counts.",
	})
	return workerid.Condition{
		Server: server.Addr, ClockAhead: server.Ahead, Replicas: server.Replicas, Needed: server.Needed,
	}
}

// Acquire grants a worker id. After workerid.ErrNoID, ErrSkew, ErrForeignPool and the errors of
// this package nothing was granted. After any other error something may have been granted, and the
// next call of the same owner gets it.
func (s *Store) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if s.raus != nil {
		return s.acquireBesideRaus(ctx, want)
	}
	return s.acquire(ctx, want)
}

func (s *Store) acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if want.Min > want.Max {
		return workerid.Grant{}, fmt.Errorf("redis: no worker ids from %d to %d", want.Min, want.Max)
	}
	return redislink.Take(ctx, s.wire.Wire, func(l *redislink.Link) (workerid.Grant, func(), error) {
		c := s.memory.Acquiring(script.Acquire{
			Terms: s.terms, Now: s.c.Now(), RequestID: newRequestID(l), Owner: want.Owner, From: want.Min, To: want.Max,
			Init: s.c.AutoInit,
		})
		reply, have, err := s.wire.run(c)
		if err != nil {
			if certain(err) {
				s.memory.NotAcquired(c)
			}
			return workerid.Grant{}, nil, s.explain(err)
		}
		r, err := script.ReadAcquired(reply)
		if err != nil {
			return workerid.Grant{}, nil, err
		}
		g := workerid.Grant{Worker: r.Worker, Owner: want.Owner, Lo: r.Lo, Hi: r.Hi}
		// If the caller does not get this answer, its next acquisition gets the same grant.
		return g, func() { s.memory.Acquired(c, r) }, s.confirm(r.Server, c.Now, have)
	})
}

// Extend lengthens all held grants in one round trip. After an error that Acquire does not name, the
// extension may have been carried out all the same; the next call allows for that.
func (s *Store) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if s.raus != nil {
		return s.extendBesideRaus(ctx, held)
	}
	return s.extend(ctx, held)
}

func (s *Store) extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if len(held) == 0 {
		return nil, nil
	}
	return redislink.Take(ctx, s.wire.Wire, func(l *redislink.Link) ([]workerid.Result, func(), error) {
		c := s.memory.Extending(script.Extend{Terms: s.terms, Now: s.c.Now(), RequestID: newRequestID(l)}, held)
		reply, have, err := s.wire.run(c)
		if err != nil {
			if certain(err) {
				s.memory.NotExtended(c)
			}
			return nil, nil, s.explain(err)
		}
		r, err := script.ReadExtended(c, reply)
		if err != nil {
			return nil, nil, err
		}
		s.memory.Extended(c, r)
		if err := s.confirm(r.Server, c.Now, have); err != nil {
			for i := range r.Results {
				if r.Results[i].Err == nil {
					r.Results[i].Err = err
				}
			}
		}
		return r.Results, func() { s.memory.Heard(c, r) }, nil
	})
}

// Release gives a grant back. Its generator must be sealed. It is sent only once: if it gets lost, the
// worker id becomes free when the lease ends.
func (s *Store) Release(ctx context.Context, g workerid.Grant, last int64) error {
	if s.raus != nil {
		return s.releaseBesideRaus(ctx, g, last)
	}
	return s.release(ctx, g, last)
}

func (s *Store) release(ctx context.Context, g workerid.Grant, last int64) error {
	_, err := redislink.Take(ctx, s.wire.Wire, func(l *redislink.Link) (any, func(), error) {
		c := s.memory.Releasing(script.Release{Terms: s.terms, Now: s.c.Now(), RequestID: newRequestID(l), Grant: g,
			Last: last})
		reply, _, err := s.wire.run(c)
		if err != nil {
			return nil, nil, s.explain(err)
		}
		server, err := script.ReadReleased(reply)
		s.note(server, c.Now)
		return nil, nil, err
	})
	return err
}

// newRequestID makes a request id. It contains the connection's id, because copies of a virtual machine
// may get the same random numbers.
func newRequestID(l *redislink.Link) string { return newName() + "." + l.ID }

func newName() string { return rand.Text()[:13] }

// certain reports whether it is certain that nothing was granted.
func certain(err error) bool {
	var r script.Refusal
	return errors.As(err, &r)
}

// explain adds to a refusal what an operator must know to act on it.
func (s *Store) explain(err error) error {
	switch {
	case errors.Is(err, workerid.ErrForeignPool):
		return fmt.Errorf("%w; this daemon's are %s", err, s.terms.Fingerprint)
	case errors.Is(err, ErrNotInitialised):
		return fmt.Errorf("%w, with this daemon's flags%s", err, s.wire.looked())
	}
	var r script.Refusal
	if errors.As(err, &r) {
		if ahead, skewed := r.Skew(); skewed {
			s.mu.Lock()
			s.status.Ahead = ahead
			s.mu.Unlock()
		}
	}
	return err
}

// confirm makes sure that enough replicas have what was written.
func (s *Store) confirm(r script.Server, asked int64, have int) error {
	var err error
	if have < r.Needed {
		have, err = s.wire.confirm(r.Needed, have)
	}
	s.note(r, asked)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", workerid.ErrUnconfirmed, err)
	case have < r.Needed:
		s.wire.Suspect()
		return fmt.Errorf("%w: %d of %d replicas have it", workerid.ErrUnconfirmed, have, r.Needed)
	}
	return nil
}

// note stores what an answer says about the server, and logs warnings about it.
func (s *Store) note(r script.Server, asked int64) {
	addr := s.wire.Addr()
	s.mu.Lock()
	s.status = Status{addr, r.Incarnation, time.Duration(r.Now-asked) * time.Millisecond, r.Needed, r.Replicas}
	s.mu.Unlock()
	s.wire.needed = r.Needed
	if r.Needed == 0 && r.Replicas > 0 {
		s.warn("Redis has replicas, and grants do not wait for them: what a fail-over loses is made good by waiting",
			"replicas", r.Replicas)
	}
	if r.Needed != s.terms.Replicas {
		s.warn("the pool says itself how many replicas must have a grant", "replicas", r.Needed, "ours", s.terms.Replicas)
	}
}

func (s *Store) warn(text string, attrs ...any) {
	if !s.warned[text] {
		s.warned[text] = true
		s.c.Log.Warn(text, attrs...)
	}
}
