package cas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Rules are the decisions that a Session needs. pool.Rules makes them.
type Rules interface {
	Watch(newcomer bool) time.Duration
	Fresh(since time.Duration) bool
	Judge(h pool.Holding, text string) (pool.Verdict, pool.Sent)
	Returns(found pool.Sent, meta pool.Meta) bool
	Vacant(before, after, present string, m pool.Meta, now pool.Moment) bool
	Order(workers []uint64, records map[uint64]string, m pool.Meta, owner string, now pool.Moment)
	Take(rec pool.Record, m pool.Meta, owner, token string, now pool.Moment) pool.Record
	Extend(rec pool.Record, m pool.Meta, token string, now pool.Moment) pool.Record
	Release(rec pool.Record, last int64, token string) pool.Record
	Raise(m pool.Meta, hi int64, epoch string, now pool.Moment) pool.Meta
	Covered(m pool.Meta, text string, hi int64) bool
	Skew(before, after map[uint64]string, m pool.Meta, apart time.Duration, now pool.Moment) error
}

// A Session is what a daemon knows of a pool between its calls, and the calls. They are not safe for
// concurrent use. Store takes turns with them.
type Session struct {
	Driver      Driver
	Rules       Rules
	Now         func() pool.Moment
	Fingerprint string // of the layout
	Lease       int64  // ms; must be the pool's
	Addr        string // of this daemon, for its presences

	conn     string
	sent     map[string]uint64 // by connection: number of the last request id that was made for it
	metaText string            // as an answer said last
	meta     pool.Meta
	readings []reading // over this connection and under this meta, the oldest first
	lanes    map[laneKey]lane
	owners   map[string]bool        // that have asked
	asked    map[string][]pool.Sent // by owner: acquisitions whose answers did not come
	drains   []drain
	raising  bool  // somebody must be told of a roll-back
	raiseHi  int64 // up to where our windows went
}

type laneKey struct {
	owner  string
	worker uint64
}

type lane struct {
	rec        pool.Record // as the last acknowledged write left it
	epoch      string
	acked      time.Duration // when that was sent
	unanswered []pool.Sent
	session    string // in which its presence was made
	unheard    bool   // the acquisition was acknowledged, but the caller did not get the grant
	ended      error  // ErrLost or ErrCloned
}

// A drain is the rest of a window whose lease is lost.
type drain struct {
	worker uint64
	hi     int64
}

type reading struct {
	at    time.Duration // of the answer
	texts map[uint64]string
}

// remembered is how many unanswered writes of a lane are kept. A forgotten one that took effect counts
// as a roll-back.
const remembered = 64

// Watching: the pool is watched before anything is written. Retry after Left.
type Watching struct{ Left time.Duration }

func (w Watching) Error() string {
	return fmt.Sprintf("the pool is watched for %v before worker ids are given out", max(w.Left, 0).Round(100*time.Millisecond))
}

// RetryAfter says when the next call may succeed.
func (w Watching) RetryAfter() time.Duration { return max(w.Left, time.Millisecond) }

// Unwrap makes it an ErrNoneYet.
func (w Watching) Unwrap() error { return workerid.ErrNoneYet }

// ErrNotInitialised: there is no pool of this name. Retry: somebody may make it.
var ErrNotInitialised = errors.New("there is no pool of worker ids; make it with `katsubushi lease init`")

// ErrSilent: of Release. The last acknowledged write was sent too long ago to give the lease back
// without a watch. Nothing was sent; the worker id becomes free when its lease ends.
var ErrSilent = errors.New("the store has not answered for too long")

var errBusy = errors.New("others changed the pool at the same time, again and again")

// attempts is how often a call is repeated whose comparison failed.
const attempts = 8

// connect makes sure of a connection. What was read over another one does not count for a watch.
func (s *Session) connect(ctx context.Context) error {
	conn, err := s.Driver.Connect(ctx)
	if err != nil {
		return err
	}
	if conn != s.conn {
		s.conn, s.readings = conn, nil
	}
	return nil
}

// token makes a request id.
func (s *Session) token() string {
	if s.sent == nil {
		s.sent = map[string]uint64{}
	}
	s.sent[s.conn]++
	return s.conn + "." + strconv.FormatUint(s.sent[s.conn], 10)
}

// mine says whether this process has ever made a request id.
func (s *Session) mine(token string) bool {
	for i := len(token) - 1; i > 0; i-- {
		if token[i] == '.' {
			n, err := strconv.ParseUint(token[i+1:], 10, 64)
			return err == nil && n > 0 && n <= s.sent[token[:i]]
		}
	}
	return false
}

// learn takes over a meta that an answer said.
func (s *Session) learn(text string) error {
	if text == s.metaText && text != "" {
		return nil
	}
	if text == "" {
		return ErrNotInitialised
	}
	m, err := pool.ParseMeta(text)
	if err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	if m.Fingerprint != s.Fingerprint || m.Lease != s.Lease {
		return fmt.Errorf("%w: the pool's are %s with a lease of %d ms, this daemon's %s with %d ms",
			workerid.ErrForeignPool, m.Fingerprint, m.Lease, s.Fingerprint, s.Lease)
	}
	s.metaText, s.meta, s.readings = text, m, nil
	return nil
}

// load reads everything, judges all lanes, and keeps the reading for the watch. It leaves the lanes
// that may go on.
func (s *Session) load(ctx context.Context) (pool.View, error) {
	if err := s.connect(ctx); err != nil {
		return pool.View{}, err
	}
	v, err := s.Driver.Load(ctx, s.conn)
	if err != nil {
		return v, err
	}
	if err := s.learn(v.Meta); err != nil {
		return v, err
	}
	s.look(v)
	s.unannounce(ctx, v.Present)
	for _, d := range s.drains {
		if !s.Rules.Covered(s.meta, v.Records[d.worker], d.hi) {
			s.mustRaise(d.hi)
		}
	}
	r := reading{s.Now().Boot, v.Records}
	w := s.Rules.Watch(false)
	if n := len(s.readings); n == 0 || r.at-s.readings[n-1].at >= w/4 {
		s.readings = append(s.readings, r)
	}
	for len(s.readings) > 1 && r.at-s.readings[1].at >= w {
		s.readings = s.readings[1:]
	}
	return v, nil
}

// unannounce deletes presences of leases that this daemon has lost, or gave up. They would bar others
// for as long as its session lives.
func (s *Session) unannounce(ctx context.Context, present map[uint64]string) {
	for _, w := range slices.Sorted(maps.Keys(present)) {
		p, err := pool.ParsePresence(present[w])
		if l, held := s.lanes[laneKey{p.Owner, w}]; err == nil && s.owners[p.Owner] && (!held || l.ended != nil) {
			s.Driver.Announce(ctx, s.conn, w, "") // otherwise the next reading tries again
		}
	}
}

// watched returns the first reading of a watch that is over, or how long it still takes.
func (s *Session) watched(newcomer bool) (first reading, left time.Duration, over bool) {
	w := s.Rules.Watch(newcomer)
	if len(s.readings) == 0 {
		return reading{}, w, false
	}
	first = s.readings[0]
	left = w - (s.Now().Boot - first.at)
	return first, left, left <= 0
}

// look judges all lanes whose records a View has.
func (s *Session) look(v pool.View) {
	for _, k := range s.keys() {
		l := s.lanes[k]
		text, there := v.Records[k.worker]
		if l.ended != nil || !there && v.Present == nil { // a commit reports only what it compared
			continue
		}
		verdict, _ := s.judge(k, text)
		s.end(k, verdict)
	}
}

// keys are those of the lanes, in an order that does not depend on the map's.
func (s *Session) keys() []laneKey {
	all := make([]laneKey, 0, len(s.lanes))
	for k := range s.lanes {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b laneKey) int {
		if a.worker != b.worker {
			return int(int64(a.worker) - int64(b.worker))
		}
		if a.owner < b.owner {
			return -1
		}
		return 1
	})
	return all
}

func (s *Session) judge(k laneKey, text string) (pool.Verdict, pool.Sent) {
	l := s.lanes[k]
	return s.Rules.Judge(pool.Holding{Owner: k.owner, Last: l.rec, Epoch: l.epoch, Unanswered: l.unanswered, Mine: s.mine}, text)
}

// end carries out a verdict on a lane.
func (s *Session) end(k laneKey, verdict pool.Verdict) {
	l := s.lanes[k]
	switch verdict {
	case pool.Held:
		return
	case pool.Copied:
		l.ended = workerid.ErrCloned
	case pool.Taken:
		l.ended = workerid.ErrLost
	case pool.RolledBack:
		l.ended = fmt.Errorf("%w: the store has forgotten it", workerid.ErrLost)
		s.mustRaise(l.rec.Mark)
	}
	if verdict != pool.Copied {
		s.drains = append(s.drains, drain{k.worker, l.rec.Mark})
	}
	s.lanes[k] = l
}

func (s *Session) mustRaise(hi int64) {
	if s.raising {
		hi = max(hi, s.raiseHi)
	}
	s.raising, s.raiseHi = true, hi
}

// raiseNow writes a new epoch and a floor into meta (C4), if that is due. On an error it stays due.
func (s *Session) raiseNow(ctx context.Context) error {
	for range attempts {
		if !s.raising {
			return nil
		}
		if err := s.connect(ctx); err != nil {
			return err
		}
		next := s.Rules.Raise(s.meta, s.raiseHi, s.token(), s.Now()).String()
		a, err := s.Driver.Commit(ctx, s.conn, pool.Change{IfMeta: s.metaText, SetMeta: next})
		if err != nil {
			return err
		}
		if !a.Done {
			if err := s.learn(a.View.Meta); err != nil {
				return err
			}
			continue
		}
		s.raising = false
		if err := s.learn(next); err != nil {
			return err
		}
	}
	return errBusy
}

// Upkeep does what is due between calls: a raise that has not succeeded, a look at the floor while
// windows of lost leases are used, and the first reading of a watch. It returns whether it must be
// called again soon, a fraction of a call's time-out later, or else a heartbeat later.
func (s *Session) Upkeep(ctx context.Context) (soon bool) {
	now := s.Now()
	s.drains = slices.DeleteFunc(s.drains, func(d drain) bool { return d.hi+s.meta.Epsilon < min(now.ID, now.Wall) })
	comesBack := false
	for _, l := range s.lanes {
		comesBack = comesBack || l.ended == nil && !s.Rules.Fresh(now.Boot-l.acked)
	}
	if err := s.connect(ctx); err != nil {
		return comesBack || s.raising
	}
	if comesBack && len(s.readings) == 0 || len(s.drains) > 0 && !s.raising {
		s.load(ctx) // on an error, the next call does it
	}
	s.raiseNow(ctx)
	return s.raising || comesBack && len(s.readings) == 0
}

// Draining says whether windows of lost leases may be in use.
func (s *Session) Draining() bool {
	now := s.Now().ID
	return slices.ContainsFunc(s.drains, func(d drain) bool { return now <= d.hi })
}

// Holds says whether a lease is held, and its record is as this daemon left it.
func (s *Session) Holds(owner string, worker uint64, text string) bool {
	l, ok := s.lanes[laneKey{owner, worker}]
	return ok && l.ended == nil && l.rec.String() == text
}
