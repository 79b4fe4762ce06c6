package cas

import (
	"context"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Stats describes a pool.
type Stats struct {
	UnusingIDs  int       `json:"unusing_ids"` // worker ids that are available
	UsingIDs    int       `json:"using_ids"`   // worker ids that are not
	Held        int       `json:"held"`        // that have an owner and a lease that has not ended
	Damaged     int       `json:"damaged"`     // whose records are missing, or cannot be read
	Min         uint64    `json:"min"`
	Max         uint64    `json:"max"`
	Fingerprint string    `json:"fingerprint"` // the settings of the pool's daemons
	Epoch       string    `json:"epoch"`
	WaitsUntil  time.Time `json:"waits_until,omitzero"` // no newcomer gets ids before
}

// Stats implements workerid.StatsAdmin.
func (a *Admin) Stats(ctx context.Context) (workerid.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, m, err := a.existing(ctx)
	if err != nil {
		return nil, err
	}
	s := Stats{Min: m.Min, Max: m.Max, Fingerprint: m.Settings(), Epoch: m.Epoch, WaitsUntil: date(m.Floor)}
	s.Damaged = len(missing(m, readable(v.Records)))
	for _, l := range a.leases(v, m) {
		switch {
		case !l.Using:
			s.UnusingIDs++
			continue
		case l.Owner != "":
			s.Held++
		}
		s.UsingIDs++
	}
	return s, nil
}

// Rows implements workerid.Report.
func (s Stats) Rows() []workerid.Row {
	return []workerid.Row{
		{Name: "unusing_ids", Value: s.UnusingIDs}, {Name: "using_ids", Value: s.UsingIDs}, {Name: "held", Value: s.Held},
		{Name: "damaged", Value: s.Damaged},
		{Name: "worker_ids", Value: fmt.Sprintf("%d-%d", s.Min, s.Max)}, {Name: "fingerprint", Value: s.Fingerprint},
		{Name: "epoch", Value: s.Epoch}, {Name: "waits_until", Value: s.WaitsUntil},
	}
}

// A FloorReport is the result of Restored and ResetClock.
type FloorReport struct {
	Now     time.Time `json:"now"`               // this host's clock
	Was     time.Time `json:"was,omitzero"`      // the floor before
	Floor   time.Time `json:"floor"`             // newcomers get ids from then on; holders keep theirs
	Far     []uint64  `json:"far,omitempty"`     // worker ids whose marks are too far ahead: a clock was wrong
	Damaged []uint64  `json:"damaged,omitempty"` // worker ids whose records are missing or cannot be read
}

// Rows implements workerid.Report.
func (r FloorReport) Rows() []workerid.Row {
	rows := []workerid.Row{
		{Name: "this host's clock", Value: r.Now}, {Name: "the floor was", Value: r.Was},
		{Name: "worker ids are given out from", Value: r.Floor},
	}
	if len(r.Far) > 0 {
		rows = append(rows,
			workerid.Row{Name: "a wrong clock was here", Value: fmt.Sprintf("worker ids %v: see lease list", r.Far)})
	}
	if len(r.Damaged) > 0 {
		rows = append(rows,
			workerid.Row{Name: "damaged", Value: fmt.Sprintf("worker ids %v: lease init -how repair", r.Damaged)})
	}
	return rows
}

// Restored is for after a restore of the store, before daemons are let in. It raises the floor above all
// windows that may have been forgotten: to the present + L + epsilon, and to all marks that there are.
// This does not cover a window that a wrong clock has stretched beyond these, if its holder does not
// reach the store: stop such a daemon first.
func (a *Admin) Restored(ctx context.Context) (workerid.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range attempts {
		v, m, err := a.existing(ctx)
		if err != nil {
			return nil, err
		}
		next := a.raised(m, v)
		answer, err := a.session.commitChange(ctx, pool.Change{IfMeta: v.Meta, SetMeta: next.String()})
		if err != nil || answer.Done {
			return a.report(v, m, next), err
		}
	}
	return nil, errBusy
}

func (a *Admin) report(v pool.View, was, is pool.Meta) FloorReport {
	now := a.session.Now().ID
	r := FloorReport{Now: date(now), Was: date(was.Floor), Floor: date(is.Floor),
		Damaged: missing(is, readable(v.Records))}
	for w := is.Min; w <= is.Max; w++ {
		if rec, err := pool.ParseRecord(v.Records[w]); err == nil && rec.Mark > now+is.Lease+a.c.MaxSkew.Milliseconds() {
			r.Far = append(r.Far, w)
		}
	}
	return r
}

// ResetClock lowers a floor that a wrong clock has left behind, to where a restore would set it
// now. It lowers no high-water mark. It first watches the pool: if this host's clock differs from
// the holders', the error is workerid.ErrSkew. The caller must know that no window reaches beyond
// the new floor, except windows of worker ids whose high-water marks do as well.
func (a *Admin) ResetClock(ctx context.Context) (workerid.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, _, err := a.existing(ctx)
	if err != nil {
		return nil, err
	}
	began := a.session.Now().Boot
	select {
	case <-time.After(a.session.Rules.Watch(true)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for range attempts {
		v, m, err := a.existing(ctx)
		if err != nil {
			return nil, err
		}
		now := a.session.Now()
		if _, _, err := a.session.Rules.Skew(before.Records, v.Records, m, now.Boot-began, now); err != nil {
			return nil, err
		}
		next := m
		next.Floor = 0
		if next = a.session.Rules.Raise(next, 0, a.session.token(), now); next.Floor >= m.Floor {
			return nil, fmt.Errorf("%w: it is %s", ErrFloorSteady, date(m.Floor).Format(time.RFC3339))
		}
		answer, err := a.session.commitChange(ctx, pool.Change{IfMeta: v.Meta, SetMeta: next.String()})
		if err != nil || answer.Done {
			return a.report(v, m, next), err
		}
	}
	return nil, errBusy
}
