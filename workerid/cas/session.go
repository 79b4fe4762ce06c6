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
	Raised(m pool.Meta, hi int64, now pool.Moment) bool
	Covered(m pool.Meta, text string, hi int64) bool
	Skew(before, after map[uint64]string, m pool.Meta, apart time.Duration, now pool.Moment) (ahead time.Duration,
		holders int, err error)
}

// A Session is what a daemon knows of a pool between its calls, and the calls. They are not safe for
// concurrent use. Store takes turns with them.
type Session struct {
	Driver   Driver
	Free     Driver // the same, whose Load takes its time while nothing waits for it; nil = Driver
	Rules    Rules
	Now      func() pool.Moment
	Pool     pool.Meta // its Settings must be the pool's; Acquire makes the pool of it if AutoInit is set
	AutoInit bool
	Path     string // of the pool, for errors: "/katsubushi/"
	Addr     string // of this daemon, for its presences
	// returns the announcements that this daemon wants to have, by name, "" for those that it wants to
	// end; nil = none
	Announced func() map[string]string

	conn      string
	sent      map[string]uint64 // by connection: number of the last request id that was made for it
	conns     []string          // these connections, in order
	session   string            // as an answer said last
	metaText  string            // the same
	meta      pool.Meta
	readings  []reading // over this connection and under this meta, the oldest first
	latest    *latest   // the same; nil = none
	lanes     map[laneKey]lane
	owners    map[string]bool        // that have asked
	asked     map[string][]pool.Sent // by owner: acquisitions whose answers did not come
	drains    []drain
	left      map[uint64]bool // worker ids of ended leases whose presences are to be deleted
	raising   bool            // a roll-back was noticed and is to be written to meta
	raiseHi   int64           // up to where our windows went
	raiseConn string          // over which meta was read when that was noticed, or later
	published map[string]publication
	ahead     time.Duration // of the holders' clocks, at the last watch
	holders   int           // whose clocks these were
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
	text   string // of the record, as it was seen last
}

// A publication is the text of an announcement, and the session in which it was made.
type publication struct{ text, session string }

type reading struct {
	asked, at time.Duration // when it was asked for, and when all answers were there
	texts     map[uint64]string
}

// latest is what a reading by Free has found after a watch. Who asked for it may be gone by then, and comes back within
// 8 s: all lanes that ask within 4 W take worker ids from it. Each commit compares the record, so that did not change
// since the watch began, however old this is.
type latest struct {
	at   time.Duration
	view pool.View
}

// remembered is how many unanswered writes of a lane, and acquisitions of an owner, are kept. A forgotten
// write that took effect counts as a roll-back. rememberedConns is of how many connections the request
// ids are kept. A record that has a forgotten one counts as a copy's.
const (
	remembered      = 64
	rememberedConns = 1 << 14
)

// Watching: the pool is watched before anything is written. Retry after Left.
type Watching struct{ Left time.Duration }

func (w Watching) Error() string {
	return fmt.Sprintf("the pool is watched for %v before worker ids are given out",
		max(w.Left, 0).Round(100*time.Millisecond))
}

// RetryAfter says when the next call may succeed.
func (w Watching) RetryAfter() time.Duration { return max(w.Left, time.Millisecond) }

// Unwrap makes it an ErrNoneYet.
func (w Watching) Unwrap() error { return workerid.ErrNoneYet }

// ErrNotInitialised: there is no pool of this name. Retry: an operator may make it.
var ErrNotInitialised = errors.New("the pool of worker ids is not initialised: `katsubushi lease init` does it " +
	"(-how new, if there never was one)")

// ErrSilent: of Release. The last acknowledged write was sent too long ago to give the lease back
// without a watch. Nothing was sent; the worker id becomes free when its lease ends.
var ErrSilent = errors.New("the store has not answered for too long")

var errBusy = errors.New("others keep changing the pool at the same time")

// attempts is how often a call is repeated whose comparison failed.
const attempts = 8

// connect makes sure of a connection. What was read over another one does not count for a watch.
func (s *Session) connect(ctx context.Context) error {
	conn, err := s.Driver.Connect(ctx)
	if err != nil {
		return err
	}
	if conn != s.conn {
		s.conn, s.readings, s.latest = conn, nil, nil
	}
	return nil
}

// token makes a request id.
func (s *Session) token() string {
	if s.sent == nil {
		s.sent = map[string]uint64{}
	}
	if s.sent[s.conn] == 0 {
		if s.conns = append(s.conns, s.conn); len(s.conns) > rememberedConns {
			delete(s.sent, s.conns[0])
			s.conns = s.conns[1:]
		}
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
		return fmt.Errorf("%w: there is no %s", ErrNotInitialised, s.metaPath())
	}
	m, err := pool.ParseMeta(text)
	if err != nil {
		return s.unreadable(err)
	}
	if theirs, ours := m.Settings(), s.Pool.Settings(); theirs != ours {
		return fmt.Errorf("%w: %s says %s, and this daemon has %s", workerid.ErrForeignPool, s.metaPath(), theirs, ours)
	}
	s.metaText, s.meta, s.readings, s.latest = text, m, nil, nil
	return nil
}

// load reads everything, judges all lanes, and keeps the reading for the watch. It leaves the lanes
// that may go on.
func (s *Session) load(ctx context.Context) (pool.View, error) {
	if err := s.connect(ctx); err != nil {
		return pool.View{}, err
	}
	driver := s.Driver
	if s.Free != nil && s.free() {
		driver = s.Free
	}
	asked := s.Now().Boot
	v, err := driver.Load(ctx, s.conn)
	if err != nil {
		return v, err
	}
	if err := s.learn(v.Meta); err != nil {
		return v, err
	}
	s.look(v)
	for w, text := range v.Present { // a restore brings some back
		if p, err := pool.ParsePresence(text); err == nil && s.owners[p.Owner] {
			s.leaves(w) // unless a lane holds it: see unannounce
		}
	}
	r := reading{asked, s.Now().Boot, v.Records}
	w := s.Rules.Watch(false)
	if n := len(s.readings); n == 0 || r.at-s.readings[n-1].at >= w/4 {
		s.readings = append(s.readings, r)
	}
	for len(s.readings) > 1 && r.at-s.readings[1].at >= w {
		s.readings = s.readings[1:]
	}
	return v, nil
}

// free says that nobody waits for this daemon: it has no window that it must extend, or see whether the store has
// forgotten it, within W.
func (s *Session) free() bool {
	for _, l := range s.lanes {
		if l.ended == nil && !s.past(l.rec.Mark) {
			return false
		}
	}
	return len(s.drains) == 0 && !s.raising
}

// past says that a window up to hi is over, and that a restore before its end has been noticed.
func (s *Session) past(hi int64) bool {
	now := s.Now()
	return hi+s.meta.Epsilon < min(now.ID, now.Wall)-s.Rules.Watch(false).Milliseconds()
}

// leaves notes that a lease has ended. Its presence would bar others for as long as this daemon's session
// lives.
func (s *Session) leaves(worker uint64) {
	if s.left == nil {
		s.left = map[uint64]bool{}
	}
	s.left[worker] = true
}

// unannounce deletes presences of ended leases. On an error the next call tries again. While a raise is due
// it does nothing, as the raise must be within W of a restore, and each deletion may take a call's time-out.
func (s *Session) unannounce(ctx context.Context) error {
	if s.raising {
		return nil
	}
	for _, w := range slices.Sorted(maps.Keys(s.left)) {
		if !s.holds(w) {
			if err := s.Driver.Announce(ctx, s.conn, w, ""); err != nil {
				return err
			}
		}
		delete(s.left, w)
	}
	return nil
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
		s.end(k, verdict, text)
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
	return s.Rules.Judge(pool.Holding{Owner: k.owner, Last: l.rec, Epoch: l.epoch, Unanswered: l.unanswered, Mine: s.mine},
		text)
}

// end carries out a verdict on a lane, whose record is text.
func (s *Session) end(k laneKey, verdict pool.Verdict, text string) {
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
		if _, err := pool.ParseRecord(text); text == "" {
			l.ended = fmt.Errorf("%w: there is no %s any more", workerid.ErrLost, s.recordPath(k.worker))
		} else if err != nil {
			l.ended = fmt.Errorf("%w: %s: %w", workerid.ErrLost, s.recordPath(k.worker), err)
		}
		if !s.Rules.Raised(s.meta, l.rec.Mark, s.Now()) {
			s.mustRaise(l.rec.Mark)
		}
	}
	if verdict != pool.Copied {
		s.drains = append(s.drains, drain{k.worker, l.rec.Mark, text})
		s.leaves(k.worker)
	}
	s.lanes[k] = l
}

func (s *Session) mustRaise(hi int64) {
	if s.raising {
		hi = max(hi, s.raiseHi)
	}
	s.raising, s.raiseHi, s.raiseConn = true, hi, s.conn
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
		a, err := s.commitChange(ctx, pool.Change{IfMeta: s.metaText, SetMeta: next})
		if err != nil {
			return err
		}
		if a.Done {
			s.raising = false
			return s.learn(next)
		}
		if err := s.learn(a.View.Meta); err != nil {
			return err
		}
		// Many are rolled back at once. Another one has raised the floor if meta has changed since this
		// one noticed, without a restore, which breaks connections
		others := s.raiseConn == s.conn && s.meta.Floor >= s.raiseHi
		s.raiseConn = s.conn
		s.raising = !others && !s.Rules.Raised(s.meta, s.raiseHi, s.Now())
	}
	return errBusy
}

// lookAfterFloor makes sure that what is left of windows of lost leases is not granted again (C4): that
// the floor protects it, or the mark of a successor. It asks only whether these have changed.
func (s *Session) lookAfterFloor(ctx context.Context) error {
	low := map[uint64]string{} // records that protect more than the floor does
	for _, d := range s.drains {
		if s.meta.Floor < d.hi {
			low[d.worker] = d.text
		}
	}
	parts := slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(low)), MaxRecords))
	if len(parts) == 0 {
		parts = [][]uint64{nil} // meta alone
	}
	for _, part := range parts {
		c := pool.Change{IfMeta: s.metaText, If: map[uint64]string{}}
		for _, w := range part {
			c.If[w] = low[w]
		}
		a, err := s.commitChange(ctx, c)
		if err != nil {
			return err
		}
		if a.Done {
			a.View.Meta, a.View.Records = s.metaText, c.If
		}
		if err := s.learn(a.View.Meta); err != nil {
			return err
		}
		for i, d := range s.drains {
			if text, asked := a.View.Records[d.worker]; asked {
				s.drains[i].text = text
			}
			text := s.drains[i].text
			if _, known := low[d.worker]; !known {
				text = "" // if the floor was lowered, to look at the record as well would take too long
			}
			if !s.Rules.Covered(s.meta, text, d.hi) {
				s.mustRaise(d.hi)
			}
		}
	}
	return nil
}

// commitChange commits, and notes which session this daemon has. If it was not done, the answer has each
// record that was compared, "" for those that are not there.
func (s *Session) commitChange(ctx context.Context, c pool.Change) (Answer, error) {
	a, err := s.Driver.Commit(ctx, s.conn, c)
	if err != nil {
		return a, err
	}
	s.session = a.Session
	if !a.Done {
		found := a.View.Records
		a.View.Records = map[uint64]string{}
		for w := range c.If {
			a.View.Records[w] = found[w]
		}
	}
	return a, nil
}

// Notices says whether a reading would tell this daemon, at its next heartbeat, that the store has
// forgotten something.
func (s *Session) Notices(v pool.View) bool {
	for k, l := range s.lanes {
		if l.ended == nil && !l.unheard {
			if verdict, _ := s.judge(k, v.Records[k.worker]); verdict == pool.RolledBack {
				return true
			}
		}
	}
	m, err := pool.ParseMeta(v.Meta)
	now := s.Now().ID
	return err == nil && slices.ContainsFunc(s.drains, func(d drain) bool {
		return now <= d.hi && !s.Rules.Covered(m, v.Records[d.worker], d.hi)
	})
}

func (s *Session) metaPath() string { return s.Path + "meta" }

// unreadable says what to do about a meta that ParseMeta refuses: no command writes over it.
func (s *Session) unreadable(err error) error {
	return fmt.Errorf("%s: %w; unless a newer release wrote it, delete this key and run `katsubushi lease init` "+
		"without -how", s.metaPath(), err)
}

func (s *Session) recordPath(worker uint64) string { return s.Path + "id/" + Name(worker) }

// A Status is what a Session knows of the pool.
type Status struct {
	Epoch   string        // "" before the first answer
	Floor   int64         // Unix ms
	Ahead   time.Duration // of the median of the holders' clocks, at the last watch
	Holders int           // whose clocks these were
}

// Status returns what is known now.
func (s *Session) Status() Status { return Status{s.meta.Epoch, s.meta.Floor, s.ahead, s.holders} }
