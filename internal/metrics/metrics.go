// Package metrics shows figures to Prometheus: a daemon's, or those of a program's ids. Only package collector imports
// Prometheus besides. It keeps no figures itself: they are plain counters elsewhere, read when Prometheus asks.
package metrics

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Handler answers /metrics. It calls read once a second at most, from any goroutine, and not while a call
// of read is under way. Histograms count since started.
//
// What read emits does not go through a registry, which would compare each metric with all others: with a thousand
// names that costs more than the rest. Tests let a registry check it.
func Handler(started time.Time, read func(emit func(figure.Figure))) http.Handler {
	program := prometheus.NewRegistry()
	program.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	own := &collector{started, read}
	all := func() ([]*dto.MetricFamily, error) {
		others, err := program.Gather()
		return sorted(append(own.families(), others...)), err
	}
	return newShared(prometheus.GathererFunc(all), func(g prometheus.Gatherer) http.Handler {
		return promhttp.HandlerFor(g, promhttp.HandlerOpts{})
	})
}

func sorted(families []*dto.MetricFamily) []*dto.MetricFamily {
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families
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
	for _, f := range c.families() {
		d := prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil)
		for _, m := range f.Metric {
			out <- collected{d, m}
		}
	}
}

// A collected metric has all but its description.
type collected struct {
	desc *prometheus.Desc
	m    *dto.Metric
}

func (c collected) Desc() *prometheus.Desc { return c.desc }

func (c collected) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter = c.m.Label, c.m.Gauge, c.m.Counter
	out.Summary, out.Histogram = c.m.Summary, c.m.Histogram
	return nil
}

// families returns every figure that has a name here. Those of one name are sorted as a registry would.
func (c *collector) families() (list []*dto.MetricFamily) {
	named, labels := map[string]*dto.MetricFamily{}, labeller{}
	c.read(func(f figure.Figure) {
		if f.Metric == "" {
			return
		}
		family := named[f.Metric]
		m := &dto.Metric{Label: labels.of(f.Labels)}
		kind := c.fill(m, f)
		if family == nil {
			name, help := "katsubushi_"+f.Metric, f.Help
			family = &dto.MetricFamily{Name: &name, Help: &help, Type: kind.Enum()}
			named[f.Metric], list = family, append(list, family)
		}
		family.Metric = append(family.Metric, m)
	})
	for _, family := range list {
		slices.SortFunc(family.Metric, byLabels)
	}
	return list
}

func byLabels(a, b *dto.Metric) int {
	return slices.CompareFunc(a.Label, b.Label, func(a, b *dto.LabelPair) int {
		return cmp.Compare(a.GetValue(), b.GetValue())
	})
}

// fill sets the value of a metric, and returns which kind it is of.
func (c *collector) fill(m *dto.Metric, f figure.Figure) dto.MetricType {
	switch v := f.Value.(type) {
	case figure.Sum:
		seconds := v.Took.Seconds()
		m.Summary = &dto.Summary{SampleCount: &v.N, SampleSum: &seconds}
		return dto.MetricType_SUMMARY
	case *latency.Snapshot:
		m.Histogram = histogram(v, c.started)
		return dto.MetricType_HISTOGRAM
	}
	n := f.Number()
	if f.Count {
		m.Counter = &dto.Counter{Value: &n}
		return dto.MetricType_COUNTER
	}
	m.Gauge = &dto.Gauge{Value: &n}
	return dto.MetricType_GAUGE
}

// A labeller makes labels. Figures that follow each other often have the same ones, which then share them.
type labeller struct {
	last  []string
	pairs []*dto.LabelPair
}

// of returns names with their values, sorted by name. What is not UTF-8 would spoil all other metrics.
func (l *labeller) of(labels []string) []*dto.LabelPair {
	if !slices.Equal(labels, l.last) {
		l.last, l.pairs = append(l.last[:0], labels...), make([]*dto.LabelPair, 0, len(labels)/2)
		for pair := range slices.Chunk(labels, 2) {
			name, value := pair[0], strings.ToValidUTF8(pair[1], "\uFFFD")
			l.pairs = append(l.pairs, &dto.LabelPair{Name: &name, Value: &value})
		}
		slices.SortFunc(l.pairs, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	}
	return l.pairs
}
