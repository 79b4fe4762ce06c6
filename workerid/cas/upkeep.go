package cas

import (
	"context"
	"slices"
)

// upkeep does what is due between calls. While nothing is, it rests: an idle daemon is not woken for it.
func (s *Store) upkeep(ctx context.Context) {
	defer s.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.timer.C:
		}
		select {
		case s.turn <- struct{}{}:
			soon := s.session.Upkeep(ctx)
			s.note(nil)
			switch {
			case soon:
				s.timer.Reset(s.c.Timeout / 4)
			case s.session.Quiet():
				s.resting = true
			default:
				s.timer.Reset(s.c.Heartbeat)
			}
			<-s.turn
		case <-ctx.Done():
			return
		}
	}
}

// Upkeep does what is due between calls: a raise that has not succeeded, a look at the floor while
// windows of lost leases are used, and the first reading of a watch. It returns whether it must be
// called again soon, a fraction of a call's time-out later, or else a heartbeat later.
func (s *Session) Upkeep(ctx context.Context) (soon bool) {
	now := s.Now()
	s.drains = slices.DeleteFunc(s.drains, func(d drain) bool { return d.hi+s.meta.Epsilon < min(now.ID, now.Wall) })
	comesBack := false
	for k, l := range s.lanes {
		if l.unheard && l.ended == nil && !s.Rules.Fresh(now.Boot-l.acked) { // nobody asks for it any more
			delete(s.lanes, k)
			s.drains = append(s.drains, drain{k.worker, l.rec.Mark, l.rec.String()}) // it still bears witness
			s.leaves(k.worker)
			continue
		}
		comesBack = comesBack || l.ended == nil && !s.Rules.Fresh(now.Boot-l.acked)
	}
	if err := s.connect(ctx); err != nil {
		return comesBack || s.raising
	}
	// on an error, the next call does it
	if len(s.drains) > 0 && !s.raising {
		s.lookAfterFloor(ctx)
		s.raiseNow(ctx)
	}
	if comesBack && len(s.readings) == 0 {
		s.load(ctx)
	}
	s.raiseNow(ctx)
	s.unannounce(ctx)
	s.publish(ctx)
	return s.raising || comesBack && len(s.readings) == 0
}

// Quiet says that Upkeep has nothing to do before the next call: every lane is extended, no window of a lost
// lease is used, and the store has this daemon's announcements.
func (s *Session) Quiet() bool {
	now := s.Now().Boot
	for _, l := range s.lanes {
		if l.unheard || !s.Rules.Fresh(now-l.acked) {
			return false
		}
	}
	if s.Announced != nil {
		for name, text := range s.Announced() {
			if s.published[name] != (publication{text, s.session}) {
				return false
			}
		}
	}
	return len(s.lanes) > 0 && len(s.drains)+len(s.left) == 0
}
