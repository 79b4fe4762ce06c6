// Package metrics shows figures to Prometheus: a daemon's, or those of a program's ids. Only package collector imports
// Prometheus besides. It keeps no figures itself: they are plain counters elsewhere, read when Prometheus asks.
package metrics

import (
	"net/http"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler answers /metrics. It calls read once a second at most, from any goroutine, and not while a call
// of read is under way. Histograms count since started.
func Handler(started time.Time, read func(emit func(figure.Figure))) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(Collector(started, read), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return newShared(r, func(g prometheus.Gatherer) http.Handler { return promhttp.HandlerFor(g, promhttp.HandlerOpts{}) })
}

// Collector collects what read emits, each time Prometheus asks. Histograms count since started.
func Collector(started time.Time, read func(emit func(figure.Figure))) prometheus.Collector {
	return &collector{started, read}
}

type collector struct {
	started time.Time
	read    func(emit func(figure.Figure))
}

// Describe sends nothing: the metrics are unchecked, because those of lanes come and go.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every figure that has a name here.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	known := described{}
	c.read(func(f figure.Figure) {
		if f.Metric != "" {
			out <- c.metric(f, known)
		}
	})
}

// described are the descriptions of one collection, by metric and names of labels. A description costs more than the
// rest of a metric, and thousands of names share a few.
type described map[string]*prometheus.Desc

func (d described) of(f figure.Figure) (desc *prometheus.Desc, values []string) {
	var room [128]byte
	key := append(room[:0], f.Metric...)
	for i := 0; i < len(f.Labels); i += 2 {
		key = append(append(key, ' '), f.Labels[i]...)
		values = append(values, f.Labels[i+1])
	}
	if desc = d[string(key)]; desc == nil {
		var names []string
		for i := 0; i < len(f.Labels); i += 2 {
			names = append(names, f.Labels[i])
		}
		desc = prometheus.NewDesc("katsubushi_"+f.Metric, f.Help, names, nil)
		d[string(key)] = desc
	}
	return desc, values
}

func (c *collector) metric(f figure.Figure, known described) prometheus.Metric {
	d, values := known.of(f)
	switch v := f.Value.(type) {
	case figure.Sum:
		return prometheus.MustNewConstSummary(d, v.N, v.Took.Seconds(), nil, values...)
	case *latency.Snapshot:
		return histogram(d, v, c.started)
	}
	kind := prometheus.GaugeValue
	if f.Count {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(d, kind, f.Number(), values...)
}
