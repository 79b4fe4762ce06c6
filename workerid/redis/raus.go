package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A raus lock lasts for rausExpiry unless it is renewed, as in kayac/go-katsubushi. The longest lease
// beside such locks is half of that, so that no lock of ours ends before its window does.
const (
	rausExpiry   = 10 * time.Minute
	rausMaxLease = rausExpiry / 2
)

//go:embed raus.lua
var rausScript string

// What the script should do.
const (
	rausTake  = "take"  // this pool granted the worker id to us: take the lock
	rausKeep  = "keep"  // we extend the lease: renew the lock, or make it again if it is gone
	rausRenew = "renew" // we extend the lease after its window is over: renew the lock, but do not make it again
	rausEnd   = "end"   // we give the worker id back: let the lock end
)

// raus holds the locks with which clients of fujiwara/raus, such as the daemons of
// kayac/go-katsubushi, keep worker ids: strings NS:id:N that name the owner. So those clients and a
// pool do not use the same worker ids while a fleet is migrated.
//
// Such a lock is weaker than a lease. It says nothing about ids, and its holders issue by their
// clocks. What a holder issued last is not known, so we assume that it lies up to Epsilon ahead.
// The calls may be repeated at will, so unanswered ones are not remembered.
type raus struct {
	c      Config
	target redislink.Target
	pool   string // prefix of the lock values of all daemons in the pool
	value  string // our lock value. It has no colon, because raus splits messages at colons

	mu    sync.Mutex
	links map[string]*redislink.Link // in a cluster by lock, as each may be on another node; otherwise a single one
}

func newRaus(c Config, t redislink.Target) *raus {
	pool := "katsubushi/" + url.QueryEscape(t.Namespace) + "/"
	return &raus{c: c, target: t, pool: pool, value: pool + newName(), links: map[string]*redislink.Link{}}
}

// A rausHolder is an error: a client of raus has the lock.
type rausHolder struct {
	key, value string
}

func (h rausHolder) Error() string {
	return fmt.Sprintf("raus's lock %s is held by %s", h.key, h.value)
}

// A rausCall says what to do with one lock, and a rausAnswer is the result. was means that this pool
// already had the lock. Only after a rausHolder it is certain that nothing was done.
type (
	rausCall struct {
		what   string
		worker uint64
	}
	rausAnswer struct {
		was bool
		err error
	}
)

// do runs the script for one lock.
func (r *raus) do(ctx context.Context, what string, worker uint64, expiry time.Duration) (was bool, err error) {
	a := r.doAll(ctx, []rausCall{{what, worker}}, expiry)[0]
	return a.was, a.err
}

// doAll runs the script for several locks, in one round trip for each link, because a daemon may have
// many lanes and Redis may be far away.
func (r *raus) doAll(ctx context.Context, calls []rausCall, expiry time.Duration) []rausAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers, asked := make([]rausAnswer, len(calls)), make([]*goredis.Cmd, len(calls))
	pipes, failed := map[*redislink.Link]goredis.Pipeliner{}, map[string]error{}
	for i, c := range calls {
		id := strconv.FormatUint(c.worker, 10)
		key, at := r.lock(c.worker)
		l, err := r.links[at], failed[at]
		if l == nil && err == nil {
			if l, err = r.connect(ctx, key); err == nil {
				r.links[at] = l
			}
		}
		if err != nil {
			answers[i].err, failed[at] = fmt.Errorf("raus's lock %s: %w", key, err), err
			continue
		}
		if pipes[l] == nil {
			pipes[l] = l.Conn.Pipeline()
		}
		asked[i] = pipes[l].Eval(ctx, rausScript, []string{key}, c.what, r.value, r.pool, expiry.Milliseconds(),
			r.c.HoldRaus+":broadcast", id)
	}
	for _, p := range pipes {
		p.Exec(ctx) // the commands have their errors
	}
	for i, cmd := range asked {
		if cmd != nil {
			answers[i] = r.answer(calls[i], cmd)
		}
	}
	return answers
}

// lock returns a lock's key, and the key of its link in links.
func (r *raus) lock(worker uint64) (key, at string) {
	key = r.c.HoldRaus + ":id:" + strconv.FormatUint(worker, 10)
	if r.target.Kind == redislink.Cluster {
		at = key
	}
	return key, at
}

// answer reads what the script returned for one lock.
func (r *raus) answer(c rausCall, cmd *goredis.Cmd) rausAnswer {
	key, at := r.lock(c.worker)
	reply, err := cmd.StringSlice()
	// otherwise a link for every worker id would stay open
	if at != "" && (c.what == rausEnd || len(reply) == 2 && reply[0] == "theirs") {
		r.drop(at)
	}
	switch {
	case err == nil && len(reply) == 2 && reply[0] == "theirs":
		return rausAnswer{false, rausHolder{key, reply[1]}}
	case err == nil && len(reply) == 2:
		return rausAnswer{reply[0] == "ours", nil}
	case err == nil:
		err = fmt.Errorf("redis: a script returned %q", reply)
	}
	if r.drop(at) { // the master may have moved
		r.target.Doubt()
	}
	return rausAnswer{false, fmt.Errorf("raus's lock %s: %w", key, err)}
}

// drop closes a link and reports whether there was one.
func (r *raus) drop(at string) bool {
	l := r.links[at]
	if l != nil {
		l.Close()
		delete(r.links, at)
	}
	return l != nil
}

func (r *raus) connect(ctx context.Context, key string) (*redislink.Link, error) {
	return r.target.Open(ctx, key, r.c.AllowEviction)
}

func (r *raus) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.Close()
	}
	clear(r.links)
}

// acquireBesideRaus acquires a worker id whose lock is free. A worker id that is given back goes to
// the end of the pool's order, so all are tried in turn, over several calls if necessary.
func (s *Store) acquireBesideRaus(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	var theirs error
	for tried := map[uint64]bool{}; ; {
		g, err := s.acquire(ctx, want)
		if errors.Is(err, workerid.ErrNoID) && theirs != nil {
			return g, fmt.Errorf("%w: %w", err, theirs)
		} else if err != nil && !errors.Is(err, workerid.ErrUnconfirmed) {
			return g, err
		}
		was, lockErr := s.raus.do(ctx, rausTake, g.Worker, rausExpiry)
		if lockErr == nil {
			if !was { // until now a client of raus may have used the worker id, by another clock
				g.Lo = max(g.Lo, min(s.c.Now()+s.terms.Epsilon, g.Hi)+1)
			}
			return g, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redislink.DialTimeout)
		err = s.release(ctx, g, g.Lo-1)
		cancel()
		if !errors.As(lockErr, new(rausHolder)) {
			return workerid.Grant{}, lockErr
		} else if err != nil {
			return workerid.Grant{}, err
		}
		if theirs = lockErr; tried[g.Worker] {
			return workerid.Grant{}, fmt.Errorf("%w: %w", workerid.ErrNoID, theirs)
		}
		tried[g.Worker] = true
	}
}

// extendBesideRaus extends the grants whose locks are ours. A lock always outlasts its window. If a
// lock has ended and the window is over, a client of raus may have had the worker id in between.
func (s *Store) extendBesideRaus(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	results := make([]workerid.Result, len(held))
	calls := make([]rausCall, len(held))
	for i, g := range held {
		if calls[i] = (rausCall{rausKeep, g.Worker}); g.Hi < s.c.Now() {
			calls[i].what = rausRenew
		}
	}
	var kept []workerid.Grant
	answers := s.raus.doAll(ctx, calls, rausExpiry)
	for i, g := range held {
		a := answers[i]
		switch {
		case errors.As(a.err, new(rausHolder)):
			results[i].Err = fmt.Errorf("%w: %w", workerid.ErrShared, a.err)
		case a.err != nil:
			results[i].Err = a.err
		case calls[i].what == rausRenew && !a.was:
			results[i].Err = fmt.Errorf("%w: a client of raus may have had the worker id", workerid.ErrLost)
		default:
			kept = append(kept, g)
		}
	}
	extended, err := s.extend(ctx, kept)
	for i := range results {
		switch { // a lane must learn that its lock is lost, even if extending the others failed
		case results[i].Err != nil:
		case err != nil:
			results[i].Err = err
		default:
			results[i], extended = extended[0], extended[1:]
		}
	}
	return results, nil
}

// releaseBesideRaus gives a grant back. It lets the lock end only when no id of a raus client can
// equal our last ones any more.
func (s *Store) releaseBesideRaus(ctx context.Context, g workerid.Grant, last int64) error {
	err := s.release(ctx, g, last)
	left := max(last-s.c.Now(), 0) + s.terms.Epsilon
	if _, lockErr := s.raus.do(ctx, rausEnd, g.Worker, time.Duration(left)*time.Millisecond); lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return err
}
