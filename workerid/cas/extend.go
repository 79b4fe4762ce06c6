package cas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Extend lengthens all held grants in one commit. A lane whose last acknowledged write was sent more
// than W ago watches first, and does not bar the others.
func (s *Session) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if len(held) == 0 {
		return nil, nil
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	results := make([]workerid.Result, len(held))
	now := s.Now()
	var fresh, stale []laneKey
	for _, g := range held {
		k := laneKey{g.Owner, g.Worker}
		switch l, ok := s.lanes[k]; {
		case !ok || l.ended != nil:
		case !s.Rules.Fresh(now.Boot - l.acked):
			stale = append(stale, k)
		default:
			fresh = append(fresh, k)
		}
	}
	errs := s.commitAll(ctx, fresh, false)
	if len(stale) > 0 {
		maps.Copy(errs, s.comeBack(ctx, stale))
	}
	raised := s.raiseNow(ctx)
	for i, g := range held {
		results[i] = s.result(g, errs[laneKey{g.Owner, g.Worker}], raised)
	}
	return results, nil
}

func (s *Session) result(g workerid.Grant, err, raised error) workerid.Result {
	l, ok := s.lanes[laneKey{g.Owner, g.Worker}]
	switch {
	case !ok:
		return workerid.Result{Err: workerid.ErrLost}
	case l.ended != nil:
		if raised != nil {
			return workerid.Result{Err: fmt.Errorf("%w; and the floor is not raised yet: %w", l.ended, raised)}
		}
		return workerid.Result{Err: l.ended}
	case err != nil:
		return workerid.Result{Err: err}
	}
	return workerid.Result{Grant: workerid.Grant{Worker: g.Worker, Owner: g.Owner, Lo: max(g.Hi+1, l.rec.Lo),
		Hi: l.rec.Mark}}
}

// comeBack extends lanes after a watch.
func (s *Session) comeBack(ctx context.Context, keys []laneKey) map[laneKey]error {
	if len(s.readings) > 0 {
		if _, left, over := s.watched(false); !over {
			return all(keys, Watching{left})
		}
	}
	first := len(s.readings) == 0
	v, err := s.load(ctx)
	if err != nil {
		return all(keys, err)
	}
	if err := s.raiseNow(ctx); err != nil {
		return all(keys, err)
	}
	_, left, over := s.watched(false)
	if first || !over {
		return all(keys, Watching{left})
	}
	for _, k := range keys {
		if l := s.lanes[k]; l.ended == nil {
			if _, found := s.judge(k, v.Records[k.worker]); !s.Rules.Returns(found, s.meta) {
				s.end(k, pool.Taken, v.Records[k.worker]) // a successor may be forgotten: another daemon has raised the floor
			}
		}
	}
	return s.commitAll(ctx, keys, true)
}

func all(keys []laneKey, err error) map[laneKey]error {
	errs := map[laneKey]error{}
	for _, k := range keys {
		errs[k] = err
	}
	return errs
}

// commitAll extends lanes in as few commits as possible. If one fails, the others wait for the next
// heartbeat: the store may need a time-out for each.
func (s *Session) commitAll(ctx context.Context, keys []laneKey, watched bool) map[laneKey]error {
	errs := map[laneKey]error{}
	var failed error
	for part := range slices.Chunk(keys, MaxRecords) {
		if failed == nil {
			failed = s.commit(ctx, part, watched)
			s.raiseNow(ctx) // within W of the heartbeat; the caller tells of errors
		}
		maps.Copy(errs, all(part, failed))
	}
	return errs
}

// commit extends lanes in one commit. watched says that they have watched, so that a change of meta
// means another watch.
func (s *Session) commit(ctx context.Context, keys []laneKey, watched bool) error {
	for range attempts {
		c := pool.Change{IfMeta: s.metaText, If: map[uint64]string{}, Set: map[uint64]string{}}
		now := s.Now()
		sent := map[laneKey]pool.Sent{}
		for _, k := range keys {
			l := s.lanes[k]
			if l.ended != nil {
				continue
			}
			if !watched && !s.Rules.Fresh(now.Boot-l.acked) { // other lanes took their time
				return Watching{s.Rules.Watch(false)}
			}
			w := pool.Sent{Worker: k.worker, Record: s.Rules.Extend(l.rec, s.meta, s.token(), now), Epoch: s.meta.Epoch}
			l.unanswered = append(l.unanswered, w)
			if len(l.unanswered) > remembered {
				l.unanswered = l.unanswered[1:]
			}
			s.lanes[k], sent[k] = l, w
			c.If[k.worker], c.Set[k.worker] = l.rec.String(), w.Record.String()
		}
		if len(sent) == 0 {
			return nil
		}
		a, err := s.commitChange(ctx, c)
		if err != nil {
			return err
		}
		if a.Done {
			s.answered(ctx, sent, now)
			return nil
		}
		s.forget(sent)
		meta := s.metaText
		if err := s.learn(a.View.Meta); err != nil {
			return err
		}
		s.look(a.View)
		if watched && meta != s.metaText {
			return Watching{s.Rules.Watch(false)}
		}
		s.adopt(keys, a.View.Records)
	}
	return errBusy
}

// forget drops writes that certainly had no effect.
func (s *Session) forget(sent map[laneKey]pool.Sent) {
	for k, w := range sent {
		l := s.lanes[k]
		l.unanswered = without(l.unanswered, w)
		s.lanes[k] = l
	}
}

func without(all []pool.Sent, w pool.Sent) []pool.Sent {
	var kept []pool.Sent
	for _, x := range all {
		if x != w {
			kept = append(kept, x)
		}
	}
	return kept
}

// adopt goes on from writes of our own whose answers did not come.
func (s *Session) adopt(keys []laneKey, texts map[uint64]string) {
	for _, k := range keys {
		l := s.lanes[k]
		if l.ended != nil {
			continue
		}
		verdict, found := s.judge(k, texts[k.worker])
		if verdict != pool.Held || found.Record == l.rec {
			continue
		}
		l.rec, l.epoch = found.Record, found.Epoch
		for i, w := range l.unanswered { // earlier ones were written over, or had no effect
			if w == found {
				l.unanswered = l.unanswered[i+1:]
				break
			}
		}
		s.lanes[k] = l
	}
}

// answered notes an acknowledged commit, and makes presences that the session does not have, unless a raise
// is due: see unannounce.
func (s *Session) answered(ctx context.Context, sent map[laneKey]pool.Sent, now pool.Moment) {
	for k, w := range sent {
		l := s.lanes[k]
		l.rec, l.epoch, l.acked, l.unanswered = w.Record, w.Epoch, now.Boot, nil
		s.lanes[k] = l
	}
	for _, k := range s.keys() {
		l := s.lanes[k]
		if _, ok := sent[k]; !ok || l.session == s.session {
			continue
		}
		// otherwise the next heartbeat tries again. Of many lanes, these must not use up the heartbeat
		if s.raising || s.Now().Boot-now.Boot > s.Rules.Watch(false)/4 {
			return
		}
		presence := pool.Presence{Owner: k.owner, Addr: s.Addr}.String()
		if s.Driver.Announce(ctx, s.conn, k.worker, presence) != nil {
			return
		}
		l.session = s.session
		s.lanes[k] = l
	}
}

// Release gives a lease back, if the last acknowledged write was sent within W.
func (s *Session) Release(ctx context.Context, g workerid.Grant, last int64) error {
	k := laneKey{g.Owner, g.Worker}
	l, ok := s.lanes[k]
	if !ok || l.ended != nil {
		return workerid.ErrLost
	}
	if last < l.rec.Lo-1 || last > max(l.rec.Mark, g.Hi) {
		return fmt.Errorf("worker id %d released at %d, outside of its window %d..%d", g.Worker, last, l.rec.Lo, l.rec.Mark)
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	for range attempts {
		l = s.lanes[k]
		if l.ended != nil {
			return errors.Join(l.ended, s.raiseNow(ctx))
		}
		if !s.Rules.Fresh(s.Now().Boot - l.acked) {
			return ErrSilent
		}
		next := s.Rules.Release(l.rec, last, s.token()).String()
		a, err := s.commitChange(ctx, pool.Change{
			IfMeta: s.metaText, If: map[uint64]string{g.Worker: l.rec.String()}, Set: map[uint64]string{g.Worker: next},
		})
		if err != nil {
			delete(s.lanes, k) // it is sent only once
			s.leaves(g.Worker)
			return err
		}
		if a.Done {
			delete(s.lanes, k)
			s.leaves(g.Worker)
			s.unannounce(ctx) // else Upkeep does it, or it ends with the session
			return nil
		}
		if err := s.learn(a.View.Meta); err != nil {
			return err
		}
		s.look(a.View)
		s.adopt([]laneKey{k}, maps.Clone(a.View.Records))
	}
	return errBusy
}
