package redismodel

import "github.com/katsubushi/katsubushi/v3/workerid/redis/script"

// Init is init.lua.
func (s *Server) Init(c script.Init, now int64) (string, error) {
	t := c.Terms
	t.Fingerprint = ""
	r, err := s.start(t, c.RequestID, c.Now, now)
	if err != nil {
		return "", err
	}
	m := &s.Keys.Meta
	ours := r.existed || len(s.Keys.HighWater) > 0
	switch {
	case m.Fingerprint != "" && m.Fingerprint != c.Fingerprint && c.How != script.InitReplace:
		return "", refuse("FOREIGN", m.Fingerprint)
	case r.initialised && ours && (c.How == script.InitNew || c.How == script.InitWait):
		return "present", nil
	}
	if err := r.jumped(); err != nil {
		return "", err
	}
	switch c.How {
	case script.InitMigrated:
		return r.migrated()
	case script.InitReplace:
		for _, w := range r.byExpiry() {
			if _, held := s.Keys.Clients[w]; held && s.Keys.IDs[w] >= score(r.now) {
				return "", refuse("HELD", itoa(int64(w)))
			}
		}
		for w := range s.Keys.IDs {
			if w < t.Min || w > t.Max {
				delete(s.Keys.IDs, w)
			}
		}
	}
	r.t.Fingerprint = c.Fingerprint
	if r.lost = c.How != script.InitNew || ours; r.lost {
		r.begin()
		if c.How == script.InitReplace {
			r.longest, r.t.Epsilon = t.Lease, t.Epsilon
		}
	} else {
		r.incarnation, r.floor = r.here+r.requestID, r.now
		for w := t.Min; w <= t.Max; w++ {
			if _, ok := s.Keys.IDs[w]; !ok {
				s.Keys.IDs[w] = 0
			}
		}
		s.Keys.Stats["min"], s.Keys.Stats["max"] = int64(t.Min), int64(t.Max)
		r.oldFloor = r.floor
	}
	r.save()
	m.Yaraus = r.initialised && !ours
	switch {
	case r.lost:
		return "waiting", nil
	case r.initialised:
		return "adopted", nil
	}
	return "made", nil
}

func (r *run) migrated() (string, error) {
	if !r.initialised {
		return "", refuse("NOINIT", "absent")
	}
	for w := r.t.Min; w <= r.t.Max; w++ {
		ended := r.expiry(w)
		if _, ok := r.Keys.HighWater[w]; ended > 0 && !ok {
			r.Keys.HighWater[w] = Record{ended + r.slack, "-", ended + r.slack + 1}
		}
	}
	was := r.Keys.Meta.Yaraus
	if r.Keys.Meta.Yaraus = false; was {
		return "migrated", nil
	}
	return "present", nil
}

// Free is free.lua.
func (s *Server) Free(c script.Free, now int64) (script.Freed, error) {
	r, err := s.start(c.Terms, c.RequestID, c.Now, now)
	if err != nil {
		return script.Freed{}, err
	}
	if _, ok := s.Keys.IDs[c.Worker]; !ok {
		return script.Freed{}, refuse("NOINIT", "absent")
	}
	f := script.Freed{Owner: s.Keys.Clients[c.Worker], Ended: r.expiry(c.Worker), HighWater: r.record(c.Worker).HighWater}
	delete(s.Keys.Clients, c.Worker)
	until := max(f.HighWater, 0)
	if s.Mutant == FreedAtOnce {
		until = r.now
	} else if f.HighWater < 0 || s.Keys.Meta.Yaraus {
		until = max(until, r.now)
	}
	s.Keys.IDs[c.Worker] = score(max(r.floor, until))
	if s.Mutant == FreeSavesTime {
		r.save()
	}
	return f, nil
}

// ResetClock is clock.lua.
func (s *Server) ResetClock(c script.ResetClock, now int64) (script.ClockReset, error) {
	r, err := s.start(c.Terms.Lenient(), c.RequestID, 0, now)
	if err != nil {
		return script.ClockReset{}, err
	}
	seen, skew := s.Keys.Meta.Seen, now-c.Now
	if s.Keys.Meta.Lmax == 0 {
		r.lmax = max(r.lmax, c.Unsure)
	}
	switch {
	case max(skew, -skew) > c.MaxSkew:
		return script.ClockReset{}, refuse("SKEW", itoa(skew))
	case seen-now <= c.MaxSkew && r.floor-now <= 10*r.lmax+r.t.Epsilon:
		return script.ClockReset{}, refuse("STEADY")
	}
	r.now, r.floor, r.lost = r.raw, 0, true
	r.begin()
	r.save()
	for w := range s.Keys.IDs {
		if until := max(r.record(w).HighWater, r.floor); r.expiry(w) > until {
			s.Keys.IDs[w] = score(until)
		}
	}
	return script.ClockReset{Now: r.raw, Seen: seen, Floor: r.floor}, nil
}

// SetReplicas is replicas.lua.
func (s *Server) SetReplicas(c script.SetReplicas, now int64) error {
	if _, err := s.start(c.Terms, "-", 0, now); err != nil {
		return err
	}
	s.Keys.Meta.Replicas = ""
	if c.Number >= 0 {
		s.Keys.Meta.Replicas = itoa(int64(c.Number))
	}
	return nil
}

// Operator is the terms of an operator, who has no lease, from those of daemons.
func Operator(t script.Terms) script.Terms {
	t.Fingerprint, t.Lease, t.MaxLease, t.Replicas, t.Min, t.Max = "", 0, 0, -1, 1, 0
	return t
}
