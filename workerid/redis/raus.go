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

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A lock of raus's lasts for rausExpiry unless it is renewed, as kayac/go-katsubushi has it. The longest lease beside such locks is half
// of that, so that no lock of ours ends before the window does.
const (
	rausExpiry   = 10 * time.Minute
	rausMaxLease = rausExpiry / 2
)

//go:embed raus.lua
var rausScript string

// What the script is to do.
const (
	rausTake  = "take"  // this pool granted the worker id to us
	rausKeep  = "keep"  // and extends it; a lock that is gone is made again
	rausRenew = "renew" // and extends it, its window being over; a lock that is gone is not made again
	rausEnd   = "end"   // we give it back: the lock is to end
)

// raus holds the locks by which clients of fujiwara/raus, such as the daemons of kayac/go-katsubushi, keep worker ids: strings NS:id:N
// that say whose the worker id is. So they and a pool do not use the same ones while a fleet is migrated.
//
// Such a lock is weaker than a lease. It says nothing of ids, and its holders go by their clocks; what one issued last is unknown, and must
// be thought to lie as much as Epsilon ahead. The calls may be repeated at will, so nothing is remembered of one without an answer.
type raus struct {
	c      Config
	target target
	pool   string // what the values of everyone in the pool begin with
	value  string // ours. There is no colon in it: raus splits what it is told at these

	mu    sync.Mutex
	links map[string]*link // by lock in a cluster, where each may be elsewhere; else there is one
}

func newRaus(c Config, t target) *raus {
	pool := "katsubushi/" + url.QueryEscape(t.namespace) + "/"
	return &raus{c: c, target: t, pool: pool, value: pool + newName(), links: map[string]*link{}}
}

// A rausHolder is a client of raus that has a lock, as an error.
type rausHolder struct {
	key, value string
}

func (h rausHolder) Error() string {
	return fmt.Sprintf("raus's lock %s is held by %s", h.key, h.value)
}

// A rausCall is what is to be done with one lock, and a rausAnswer what came of it: was says that there was one, of this pool's. A rausHolder is
// the only error that is certain.
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

// do carries the script out for one lock.
func (r *raus) do(ctx context.Context, what string, worker uint64, expiry time.Duration) (was bool, err error) {
	a := r.doAll(ctx, []rausCall{{what, worker}}, expiry)[0]
	return a.was, a.err
}

// doAll carries it out for several, in one round trip for all that are on one link: a daemon may have many lanes, and Redis be far away.
func (r *raus) doAll(ctx context.Context, calls []rausCall, expiry time.Duration) []rausAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers, asked := make([]rausAnswer, len(calls)), make([]*goredis.Cmd, len(calls))
	pipes, failed := map[*link]goredis.Pipeliner{}, map[string]error{}
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
			pipes[l] = l.conn.Pipeline()
		}
		asked[i] = pipes[l].Eval(ctx, rausScript, []string{key}, c.what, r.value, r.pool, expiry.Milliseconds(), r.c.HoldRaus+":broadcast", id)
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

// lock is a lock's key, and where in links its link is.
func (r *raus) lock(worker uint64) (key, at string) {
	key = r.c.HoldRaus + ":id:" + strconv.FormatUint(worker, 10)
	if r.target.kind == cluster {
		at = key
	}
	return key, at
}

// answer reads what the script returned for one lock.
func (r *raus) answer(c rausCall, cmd *goredis.Cmd) rausAnswer {
	key, at := r.lock(c.worker)
	reply, err := cmd.StringSlice()
	if at != "" && (c.what == rausEnd || len(reply) == 2 && reply[0] == "theirs") { // or one for each worker id that there is would stay
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
	if r.drop(at) { // the master may be elsewhere by now
		r.target.doubt()
	}
	return rausAnswer{false, fmt.Errorf("raus's lock %s: %w", key, err)}
}

// drop closes a link, and says whether it was there.
func (r *raus) drop(at string) bool {
	l := r.links[at]
	if l != nil {
		l.close()
		delete(r.links, at)
	}
	return l != nil
}

func (r *raus) connect(ctx context.Context, key string) (*link, error) {
	addr, err := r.target.find(ctx, key, r.c.TLS)
	if err != nil {
		return nil, err
	}
	l, err := open(ctx, at(r.target.options, addr, r.c.TLS), r.c.AllowEviction)
	if err != nil {
		r.target.doubt()
	}
	return l, err
}

func (r *raus) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.close()
	}
	clear(r.links)
}

// acquireBesideRaus acquires a worker id whose lock can be had. One that is given back comes last in the pool's order, so
// all are tried in turn, over several calls if need be.
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
			if !was { // a client of raus may have used the worker id until the lock was had, by another clock
				g.Lo = max(g.Lo, min(s.c.Now()+s.terms.Epsilon, g.Hi)+1)
			}
			return g, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
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

// extendBesideRaus extends the grants whose locks are ours. A lock always outlasts the window, so if one has ended while the window was over, a client
// of raus may have had the worker id in between.
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
		switch { // whose lock is lost must hear it, whatever is wrong with the others
		case results[i].Err != nil:
		case err != nil:
			results[i].Err = err
		default:
			results[i], extended = extended[0], extended[1:]
		}
	}
	return results, nil
}

// releaseBesideRaus gives a grant back, and lets the lock end when no id of a client of raus can meet the last of ours.
func (s *Store) releaseBesideRaus(ctx context.Context, g workerid.Grant, last int64) error {
	err := s.release(ctx, g, last)
	left := max(last-s.c.Now(), 0) + s.terms.Epsilon
	if _, lockErr := s.raus.do(ctx, rausEnd, g.Worker, time.Duration(left)*time.Millisecond); lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return err
}
