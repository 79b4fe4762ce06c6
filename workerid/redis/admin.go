package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// An Admin makes a Pool a workerid.Admin.
type Admin struct{ *Pool }

var _ interface {
	workerid.Admin
	workerid.StatsAdmin
	workerid.ReplicasAdmin
	workerid.ClockAdmin
} = Admin{}

// Open makes a Store, as a workerid.Backend.
func (c Config) Open() (workerid.Backend, error) {
	s, err := Open(c)
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

// OpenAdmin makes a Pool, as a workerid.Admin.
func (c Config) OpenAdmin() (workerid.Admin, error) {
	p, err := OpenPool(c)
	if err != nil {
		return nil, err
	}
	return Admin{p}, nil
}

// Stats implements workerid.StatsAdmin.
func (a Admin) Stats(ctx context.Context) (workerid.Report, error) { return a.Pool.Stats(ctx) }

// Replicas implements workerid.ReplicasAdmin.
func (a Admin) Replicas(ctx context.Context) (workerid.Report, error) { return a.Pool.Replicas(ctx) }

// ResetClock implements workerid.ClockAdmin.
func (a Admin) ResetClock(ctx context.Context) (workerid.Report, error) {
	return a.Pool.ResetClock(ctx)
}

// Rows implements workerid.Report.
func (s Stats) Rows() []workerid.Row {
	return []workerid.Row{
		{Name: "client_id_count", Value: s.ClientIDCount}, {Name: "client_get_id_count", Value: s.GetIDCount},
		{Name: "client_get_id_success", Value: s.GetIDSuccess}, {Name: "get_id_no_available_id", Value: s.GetIDNoAvailableID},
		{Name: "extend_ttl_count", Value: s.ExtendTTLCount}, {Name: "extend_ttl_success", Value: s.ExtendTTLSuccess},
		{Name: "extend_ttl_ownership_error", Value: s.ExtendTTLOwnershipError},
		{Name: "extend_ttl_expire_warning", Value: s.ExtendTTLExpireWarning},
		{Name: "unusing_ids", Value: s.UnusingIDs}, {Name: "using_ids", Value: s.UsingIDs},
		{Name: "using_ttl_max", Value: s.UsingTTLMax}, {Name: "using_ttl_mid", Value: s.UsingTTLMid},
		{Name: "using_ttl_min", Value: s.UsingTTLMin},
		{Name: "worker_ids", Value: fmt.Sprintf("%d-%d", s.Min, s.Max)}, {Name: "held", Value: s.Held},
		{Name: "waits_until", Value: s.WaitsUntil},
		{Name: "clock_back_seconds", Value: s.ClockBack}, {Name: "yaraus_clients_allowed", Value: s.Yaraus},
		{Name: "fingerprint", Value: s.Fingerprint},
	}
}

// Rows implements workerid.Report.
func (r Replicas) Rows() []workerid.Row {
	needed := strconv.Itoa(r.Needed)
	if r.Needed < 0 {
		needed = "what each daemon's -redis-replicas says"
	}
	rows := []workerid.Row{{Name: "needed", Value: needed}}
	for _, c := range r.Connected {
		rows = append(rows,
			workerid.Row{Name: "connected", Value: fmt.Sprintf("%s, %s, heard of %d s ago", c.Addr, c.State, c.Lag)})
	}
	return rows
}

// Rows implements workerid.Report.
func (r ClockReset) Rows() []workerid.Row {
	return []workerid.Row{
		{Name: "Redis's clock", Value: r.Now}, {Name: "it had been at", Value: r.Was},
		{Name: "worker ids are given out from", Value: r.WaitsUntil},
	}
}
