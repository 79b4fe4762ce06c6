package cas

import (
	"context"
	"slices"
	"time"
)

// Upkeep does what is due between calls: a raise that has not succeeded, a look at the floor while
// windows of lost leases are used, and the first reading of a watch. It returns whether it must be
// called again soon, a fraction of a call's time-out later, or else a heartbeat later.
func (s *Session) Upkeep(ctx context.Context) (soon bool) {
	now := s.Now()
	s.drains = slices.DeleteFunc(s.drains, func(d drain) bool { return s.past(d.hi) })
	comesBack := false
	for k, l := range s.lanes {
		if l.unheard && l.ended == nil && !s.Rules.Fresh(now.Boot-l.acked) { // no request asks for it any more
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

// Idle says, after an extension, that Upkeep has nothing to do: it extended all lanes, nothing is left of lost
// ones, and this daemon's session has its announcements.
func (s *Session) Idle() bool {
	now := s.Now().Boot
	for _, l := range s.lanes {
		if l.ended == nil && now-l.acked > s.Rules.Watch(false)/4 {
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
	return len(s.drains)+len(s.left) == 0
}

// IdleFor is how long Upkeep waits after an extension that left it nothing to do. The next one puts it off
// again; if that fails, it comes half a heartbeat later.
func IdleFor(heartbeat time.Duration) time.Duration { return heartbeat * 3 / 2 }
