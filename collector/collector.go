// Package collector shows the ids of a program to Prometheus: the figures that a daemon shows of the same things, by
// the same names, which docs/METRICS.md explains, so that a daemon's alerts and dashboards fit. They say whether ids
// are issued, and count requests without an id by reason; worker ids, their leases or windows, the clock, the layout;
// and of each name of IDs.Name what it has issued, of a sequence also its blocks.
//
//	prometheus.MustRegister(collector.New(ids))
package collector

import (
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// New returns a Collector of ids. It keeps no figures itself, and asks no store. Its metrics are unchecked, because
// those of worker ids come and go, so a second one in a registry is not noticed before it collects.
func New(ids *katsubushi.IDs) prometheus.Collector { return metrics.Collector(time.Now(), ids.Figures) }
