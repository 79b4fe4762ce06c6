package cas

import (
	"context"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Acquire grants a worker id after a watch. Until that is over, the error is Watching. The caller
// calls Heard once it has the grant.
func (s *Session) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if want.Min > want.Max {
		return workerid.Grant{}, fmt.Errorf("no worker ids from %d to %d", want.Min, want.Max)
	}
	if err := s.connect(ctx); err != nil {
		return workerid.Grant{}, err
	}
	if s.owners == nil {
		s.owners = map[string]bool{}
	}
	s.owners[want.Owner] = true
	if g, err := s.unheard(ctx, want.Owner); err != nil || g.Owner != "" {
		return g, err
	}
	_, left, over := s.watched(true)
	if len(s.readings) > 0 && !over {
		return workerid.Grant{}, Watching{left}
	}
	v, late, err := s.read(ctx, over)
	if errors.Is(err, ErrNotInitialised) && s.AutoInit {
		err = s.autoInit(ctx, v)
	}
	if err != nil {
		return workerid.Grant{}, err
	}
	if err := s.raiseNow(ctx); err != nil {
		return workerid.Grant{}, err
	}
	now := s.Now()
	first, left, over := s.watched(true)
	if !over || late {
		return workerid.Grant{}, Watching{left}
	}
	apart := now.Boot - first.asked
	if s.ahead, s.holders, err = s.Rules.Skew(first.texts, v.Records, s.meta, apart, now); err != nil {
		return workerid.Grant{}, err
	}
	if g, err := s.lostAnswer(ctx, want.Owner, v); err != nil || g.Owner != "" {
		return g, err
	}
	return s.takeOne(ctx, want, first, v)
}

// read reads everything for Acquire. watched says that the watch is over. late says that the time of a call may be
// over as well, and that the next one gets what was read.
func (s *Session) read(ctx context.Context, watched bool) (v pool.View, late bool, err error) {
	if l := s.latest; l != nil && s.Now().Boot-l.at <= 4*s.Rules.Watch(true) {
		return l.view, false, nil
	}
	late = watched && s.Free != nil && s.free()
	if v, err = s.load(ctx); err == nil && late {
		s.latest = &latest{s.Now().Boot, v}
	}
	return v, late, err
}

// takeOne tries the vacant worker ids in turn.
func (s *Session) takeOne(ctx context.Context, want workerid.Request, first reading, v pool.View) (workerid.Grant,
	error) {
	now := s.Now()
	var vacant []uint64
	none := workerid.ErrNoID
	for w := max(want.Min, s.meta.Min); w <= min(want.Max, s.meta.Max); w++ {
		text, there := v.Records[w]
		switch {
		case !there || s.holds(w):
		case s.Rules.Vacant(first.texts[w], text, v.Present[w], s.meta, now):
			vacant = append(vacant, w)
		case s.Rules.Vacant(text, text, v.Present[w], s.meta, now): // given back just now, for example
			none = Watching{s.Rules.Watch(true)}
		}
	}
	s.Rules.Order(vacant, v.Records, s.meta, want.Owner, now)
	for _, w := range vacant {
		rec, err := pool.ParseRecord(v.Records[w])
		if err != nil {
			continue
		}
		now := s.Now()
		sent := pool.Sent{Worker: w, Record: s.Rules.Take(rec, s.meta, want.Owner, s.token(), now), Epoch: s.meta.Epoch}
		s.asks(want.Owner, sent)
		a, err := s.commitChange(ctx, pool.Change{
			IfMeta: s.metaText, If: map[uint64]string{w: v.Records[w]}, Set: map[uint64]string{w: sent.Record.String()},
		})
		if err == nil && a.Done {
			return s.granted(ctx, want.Owner, sent, now), nil
		}
		if err != nil {
			return workerid.Grant{}, err
		}
		s.asked[want.Owner] = without(s.asked[want.Owner], sent)
		meta := s.metaText
		if err := s.learn(a.View.Meta); err != nil {
			return workerid.Grant{}, err
		}
		if meta != s.metaText {
			return workerid.Grant{}, Watching{s.Rules.Watch(true)}
		}
	}
	return workerid.Grant{}, none
}

// asks notes that an acquisition is sent.
func (s *Session) asks(owner string, sent pool.Sent) {
	if s.asked == nil {
		s.asked = map[string][]pool.Sent{}
	}
	s.asked[owner] = append(s.asked[owner], sent)
	if n := len(s.asked[owner]); n > remembered {
		s.asked[owner] = s.asked[owner][n-remembered:]
	}
}

// holds says whether a lane of this daemon has the worker id.
func (s *Session) holds(worker uint64) bool {
	for k, l := range s.lanes {
		if k.worker == worker && l.ended == nil {
			return true
		}
	}
	return false
}

// granted notes an acquisition that was acknowledged.
func (s *Session) granted(ctx context.Context, owner string, w pool.Sent, now pool.Moment) workerid.Grant {
	delete(s.asked, owner) // the others are not to be adopted any more, whatever comes back
	for k, l := range s.lanes {
		if k.owner == owner && l.ended != nil {
			delete(s.lanes, k)
		}
	}
	k := laneKey{owner, w.Worker}
	if s.lanes == nil {
		s.lanes = map[laneKey]lane{}
	}
	s.lanes[k] = lane{unheard: true}
	s.answered(ctx, map[laneKey]pool.Sent{k: w}, now)
	return grant(k, s.lanes[k])
}

func grant(k laneKey, l lane) workerid.Grant {
	return workerid.Grant{Worker: k.worker, Owner: k.owner, Lo: l.rec.Lo, Hi: l.rec.Mark}
}

// Heard says that the caller has the grant that Acquire returned.
func (s *Session) Heard(g workerid.Grant) {
	k := laneKey{g.Owner, g.Worker}
	if l, ok := s.lanes[k]; ok {
		l.unheard = false
		s.lanes[k] = l
	}
}

// unheard grants again what an earlier call of this owner was granted, if the caller has not got it.
func (s *Session) unheard(ctx context.Context, owner string) (workerid.Grant, error) {
	for _, k := range s.keys() {
		l := s.lanes[k]
		if k.owner != owner || !l.unheard || l.ended != nil {
			continue
		}
		var err error
		if !s.Rules.Fresh(s.Now().Boot - l.acked) {
			err = s.comeBack(ctx, []laneKey{k})[k]
		} else {
			err = s.commit(ctx, []laneKey{k}, false)
		}
		if err == nil {
			err = s.raiseNow(ctx)
		}
		if err != nil {
			return workerid.Grant{}, err
		}
		if l = s.lanes[k]; l.ended == nil {
			return grant(k, l), nil
		}
	}
	return workerid.Grant{}, nil
}

// lostAnswer finds an acquisition of this owner that was carried out, though its answer did not come.
func (s *Session) lostAnswer(ctx context.Context, owner string, v pool.View) (workerid.Grant, error) {
	for _, w := range s.asked[owner] {
		if v.Records[w.Worker] != w.Record.String() || w.Epoch != s.meta.Epoch {
			continue
		}
		now := s.Now()
		next := pool.Sent{Worker: w.Worker, Record: s.Rules.Extend(w.Record, s.meta, s.token(), now), Epoch: s.meta.Epoch}
		s.asks(owner, next)
		a, err := s.commitChange(ctx, pool.Change{
			IfMeta: s.metaText, If: map[uint64]string{w.Worker: w.Record.String()},
			Set: map[uint64]string{w.Worker: next.Record.String()},
		})
		if err != nil {
			return workerid.Grant{}, err
		}
		if a.Done {
			return s.granted(ctx, owner, next, now), nil
		}
		s.asked[owner] = without(s.asked[owner], next)
		return workerid.Grant{}, s.learn(a.View.Meta)
	}
	return workerid.Grant{}, nil
}
