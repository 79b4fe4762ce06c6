package daemon

import (
	"os"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/grpcapi"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// newGRPC makes the service of the gRPC port.
func (d *Daemon) newGRPC() service {
	c := grpcapi.Config{
		Batch: d.catalog.Batch, Stats: d.nineStats, Ready: d.ready, Counters: &d.called,
		Limits: d.front.Limits(), TLS: d.front.TLS, Busy: d.front.Busy, Login: d.front.Login(),
	}
	return grpcapi.New(c)
}

// nineStats returns the statistics that kayac/go-katsubushi has.
func (d *Daemon) nineStats() *katsubushipb.StatsResponse {
	n := d.front.Counts()
	issued := n[protocol.IDs] + d.requests.IDs.Load() + d.called.IDs.Load()
	refused := n[protocol.Refused] + d.requests.Refused.Load() + d.called.Refused.Load()
	return &katsubushipb.StatsResponse{
		Pid:              int32(os.Getpid()),
		Uptime:           int64(time.Since(d.started).Seconds()),
		Time:             d.clock.Now() / 1000,
		Version:          d.c.Version,
		CurrConnections:  d.front.Connections.Current.Load(),
		TotalConnections: int64(d.front.Connections.Total.Load()),
		CmdGet:           int64(issued + refused), // like memcached: dashboards divide the hits by it
		GetHits:          int64(issued),
		GetMisses:        int64(refused),
	}
}
