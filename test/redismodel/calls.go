package redismodel

import (
	"math"
	"slices"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

func score(ms int64) float64     { return float64(ms) / 1000 }
func millis(score float64) int64 { return int64(math.Floor(score*1000 + 0.5)) }
func itoa(n int64) string        { return strconv.FormatInt(n, 10) }

// Carry carries out any call, at a time in Unix ms.
func (s *Server) Carry(c script.Call, now int64) (v any, err error) {
	switch c := c.(type) {
	case script.Acquire:
		v, err = s.Acquire(c, now)
	case script.Extend:
		v, err = s.Extend(c, now)
	case script.Release:
		v, err = s.Release(c, now)
	case script.Init:
		v, err = s.Init(c, now)
	case script.Free:
		v, err = s.Free(c, now)
	case script.ResetClock:
		v, err = s.ResetClock(c, now)
	case script.SetReplicas:
		err = s.SetReplicas(c, now)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Acquire is acquire.lua. now is the server's clock, Unix ms.
func (s *Server) Acquire(c script.Acquire, now int64) (script.Acquired, error) {
	r, err := s.start(c.Terms, c.RequestID, c.Now, now)
	if err != nil {
		return script.Acquired{}, err
	}
	ours := r.existed || len(s.Keys.HighWater) > 0
	if !c.Init && !(r.initialised && ours) {
		if r.initialised {
			return script.Acquired{}, refuse("NOINIT", "yaraus")
		}
		return script.Acquired{}, refuse("NOINIT", "absent")
	}
	if err := r.jumped(); err != nil {
		return script.Acquired{}, err
	}
	if c.New {
		s.Keys.Stats["client_id_count"]++
	}
	s.Keys.Stats["get_id_count"]++
	a := script.Acquired{}
	found := r.unheard(c, &a)
	if !found && !r.lost {
		found = r.free(c, &a)
	}
	if r.lost {
		r.begin()
	}
	r.save()
	if !ours {
		s.Keys.Meta.Yaraus = r.initialised
	}
	if !found {
		s.Keys.Stats["get_id_no_available_id"]++
		return script.Acquired{}, refuse("NOID", itoa(max(r.floor-r.now, 0)))
	}
	a.Hi = max(a.Hi, a.Lo-1, r.now+c.Lease)
	r.grant(a.Worker, c.Owner, a.Hi, a.Lo)
	s.Keys.Stats["get_id_success"]++
	a.Server = r.server()
	return a, nil
}

// unheard looks for what was granted to this owner and never heard of.
func (r *run) unheard(c script.Acquire, a *script.Acquired) (found bool) {
	for w := c.From; w <= c.To; w++ {
		rec := r.record(w)
		if r.Keys.Clients[w] == c.Owner && slices.Contains(c.Known, rec.RequestID) && rec.HighWater > r.now+r.t.Epsilon {
			a.Worker, a.Lo, a.Hi = w, rec.Lo, rec.HighWater
			return true
		}
	}
	return false
}

// free looks for one that is free. It may find that something was lost instead.
func (r *run) free(c script.Acquire, a *script.Acquired) (found bool) {
	for _, w := range r.byExpiry() {
		ended, mark := r.expiry(w), r.record(w).HighWater
		if r.Keys.IDs[w] >= score(r.now) {
			break
		}
		if w < c.From || w > c.To {
			continue
		}
		if ended > 0 && mark < 0 && !r.Keys.Meta.Yaraus {
			r.lost = true
			return false
		}
		start := max(mark, r.floor)
		if ended > 0 {
			start = max(start, ended+r.slack)
		}
		if start++; r.Mutant == SuccessorStartsNow {
			start = r.now
		}
		if !found || start < a.Lo {
			a.Worker, a.Lo, a.Hi, found = w, start, start-1, true
		}
		if a.Lo <= r.now {
			break
		}
	}
	return found
}

// Extend is extend.lua.
func (s *Server) Extend(c script.Extend, now int64) (script.Extended, error) {
	r, err := s.start(c.Terms, c.RequestID, c.Now, now)
	if err != nil {
		return script.Extended{}, err
	}
	type state struct {
		Record
		mine, asked bool
	}
	states := make([]state, len(c.Lanes))
	for i, l := range c.Lanes {
		rec := r.record(l.Grant.Worker)
		states[i] = state{rec, s.Keys.Clients[l.Grant.Worker] == l.Grant.Owner, slices.Contains(l.Known, rec.RequestID)}
		if s.Mutant == NoRequestID {
			states[i].asked = true
		}
		released := rec.RequestID == "-" && rec.HighWater >= l.Grant.Lo
		rolledBack := rec.HighWater < l.Grant.Hi && (states[i].mine || l.Incarnation == r.incarnation && !released)
		if rolledBack && s.Mutant != RollBackNotNoticed {
			r.lost = true
		}
	}
	if r.lost {
		r.begin()
	}
	for _, l := range c.Lanes {
		if l.Incarnation != r.incarnation && l.Incarnation != "" && l.Grant.Hi > r.floor && l.Grant.Hi <= r.now+10*r.lmax &&
			s.Mutant != NoFloor {
			r.floor = l.Grant.Hi
		}
	}
	r.save()
	s.Keys.Stats["extend_ttl_count"] += int64(len(c.Lanes))
	e := script.Extended{Server: r.server(), Results: make([]workerid.Result, len(c.Lanes))}
	for i, l := range c.Lanes {
		st := states[i]
		e.Results[i] = r.extendLane(l, st.Record, st.mine, st.asked)
	}
	return e, nil
}

func (r *run) extendLane(l script.Lane, rec Record, mine, asked bool) workerid.Result {
	w, stats := l.Grant.Worker, r.Keys.Stats
	ok := mine && asked
	if l.Incarnation != r.incarnation && l.Incarnation != "" {
		ok = (l.Grant.Hi > r.now+r.t.Epsilon || r.Mutant == ReclaimLate) && (ok || rec.HighWater <= l.Grant.Hi)
	}
	if r.Mutant == BlindRenewal {
		ok = true
	}
	switch {
	case ok:
	case mine && !asked && rec.HighWater >= l.Grant.Hi:
		stats["extend_ttl_ownership_error"]++
		return workerid.Result{Err: workerid.ErrCloned}
	default:
		stats["extend_ttl_ownership_error"]++
		return workerid.Result{Err: workerid.ErrLost}
	}
	if r.expiry(w) < r.now {
		stats["extend_ttl_expire_warning"]++
	}
	hi, lo := max(rec.HighWater, l.Grant.Hi, r.now+r.t.Lease), l.Grant.Lo
	if mine && asked {
		lo = rec.Lo
	}
	switch r.Mutant {
	case HiNotCapped:
		hi += 3600000
	case ExtendLowersMark:
		r.Keys.HighWater[w] = Record{}
		hi = r.now + r.t.Lease
	}
	r.grant(w, l.Grant.Owner, hi, lo)
	stats["extend_ttl_success"]++
	return workerid.Result{Grant: workerid.Grant{Worker: w, Owner: l.Grant.Owner, Lo: l.Grant.Hi + 1, Hi: hi}}
}

// Release is release.lua.
func (s *Server) Release(c script.Release, now int64) (script.Server, error) {
	r, err := s.start(c.Terms, c.RequestID, c.Now, now)
	if err != nil {
		return script.Server{}, err
	}
	w, rec := c.Grant.Worker, r.record(c.Grant.Worker)
	mine := s.Keys.Clients[w] == c.Grant.Owner
	if rec.HighWater < c.Grant.Hi && (mine || rec.HighWater < c.Last && r.floor < c.Last && c.Last <= c.Grant.Hi) {
		r.lost = true
	}
	if r.lost {
		r.begin()
	}
	r.save()
	ok := mine && slices.Contains(c.Known, rec.RequestID) && rec.Lo-1 <= c.Last && c.Last <= rec.HighWater
	if s.Mutant == ReleaseNotChecked {
		ok = true
	}
	if !ok {
		return script.Server{}, refuse("LOST")
	}
	delete(s.Keys.Clients, w)
	s.Keys.HighWater[w] = Record{c.Last, "-", c.Last + 1}
	s.Keys.IDs[w] = score(max(r.now, r.floor))
	if s.Mutant == ReleaseDeletesRecord {
		delete(s.Keys.HighWater, w)
		s.Keys.IDs[w] = 0
	}
	return r.server(), nil
}
