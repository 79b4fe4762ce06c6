// Package metrics shows the daemon's figures to Prometheus. No other package imports Prometheus. It
// keeps no figures itself: they are plain counters elsewhere, read when Prometheus asks.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Snapshot is the daemon at one moment. Counts only grow.
type Snapshot struct {
	IDs                  uint64
	Commands             []Count // by kind
	Errors               []Count // by reason
	Latency              latency.Snapshot
	Ready                bool
	Lanes                []Lane
	Pool                 string  // that leases the lanes' worker ids; empty = they were given by hand
	ClockAdjustments     []Count // by kind
	TimeFieldSecondsLeft float64
	Leases               Leases
	Figures              func(emit func(figure.Figure)) // emits all other figures; nil = none

	Encrypted              bool // the memcached port speaks TLS
	CertificateSecondsLeft float64
}

// A Count is a count with a label.
type Count struct {
	Label string
	Value uint64
}

// A Lane is the slot of one worker id's generator.
type Lane struct {
	HasWorker    bool // false = neither a worker id nor a window
	Worker       uint64
	State        string
	RunAhead     float64 // last id − now, seconds; negative while idle
	WindowLeft   float64 // seconds until the window ends
	WindowIsOpen bool    // the window ends with the layout, so there is no lease to watch
}

// Leases describes the calls to the store of the windows, and their outcomes.
type Leases struct {
	Acquisitions, Extensions []Count // by outcome
	Calls                    uint64
	CallSeconds              float64 // total time of all Calls
	LastExtension            float64 // Unix seconds; 0 = there was none
}

// Build says which program is running, since when, and of which kind its ids are: the layout's name, and
// what all daemons that share worker ids must have in common.
type Build struct {
	Version, GoVersion, Engine string
	Layout, Fingerprint        string
	Record                     string // of the windows: "state_dir", "store" or "none"
	Started                    time.Time
}

// Handler answers /metrics. It calls read once a second at most, from any goroutine, and not while a call
// of read is under way.
func Handler(b Build, read func() Snapshot) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{b, read}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return newShared(r, func(g prometheus.Gatherer) http.Handler { return promhttp.HandlerFor(g, promhttp.HandlerOpts{}) })
}

type collector struct {
	build Build
	read  func() Snapshot
}

// Describe sends nothing: the metrics are unchecked, because those of lanes come and go.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads one snapshot and sends its metrics.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.read()
	w := writer{out}
	w.gauge("build_info", "What is running; always 1.", 1, "version", c.build.Version, "goversion", c.build.GoVersion,
		"engine", c.build.Engine)
	w.gauge("record_info", "What records the windows of the worker ids; always 1.", 1, "record", c.build.Record)
	w.gauge("layout_info", "The layout of the ids; always 1.", 1, "layout", c.build.Layout, "fingerprint",
		c.build.Fingerprint)
	w.count("ids_issued_total", "Ids handed out.", s.IDs)
	w.counts("commands_total", "Commands by kind.", "command", s.Commands)
	w.counts("errors_total", "Requests answered by an error, by reason.", "reason", s.Errors)
	w.histogram("request_duration_seconds",
		"Time from a request's last byte read to its answer handed to the kernel; what one read brings is one request.",
		s.Latency, c.build.Started)
	w.gauge("ready", "1 while ids are issued.", bit(s.Ready))
	w.gauge("lanes", "Slots for worker ids.", float64(len(s.Lanes)))
	for i, l := range s.Lanes {
		worker := ""
		if l.HasWorker {
			worker = strconv.FormatUint(l.Worker, 10)
		}
		labels := []string{"lane", strconv.Itoa(i), "worker_id", worker}
		w.gauge("lane_state", "The state of a lane's lease, and the pool that has its worker id; always 1.", 1,
			append(labels, "state", l.State, "pool", s.Pool)...)
		if !l.HasWorker {
			continue
		}
		w.gauge("run_ahead_seconds", "How far the last id lies ahead of the clock; negative while idle.", l.RunAhead,
			labels...)
		if !l.WindowIsOpen {
			w.gauge("window_left_seconds", "Time until the lane's window ends.", l.WindowLeft, labels...)
		}
	}
	w.leases(s.Leases)
	if s.Figures != nil {
		s.Figures(w.figure)
	}
	w.counts("clock_adjustments_total", "Adjustments of the id clock, by kind.", "kind", s.ClockAdjustments)
	w.gauge("time_field_left_seconds", "Time until the layout's time field is used up.", s.TimeFieldSecondsLeft)
	if s.Encrypted {
		w.gauge("tls_certificate_left_seconds", "Time until the certificate in force expires.", s.CertificateSecondsLeft)
	}
}

type writer struct{ out chan<- prometheus.Metric }

// figure sends a figure that has a name here.
func (w writer) figure(f figure.Figure) {
	kind := prometheus.GaugeValue
	if f.Count {
		kind = prometheus.CounterValue
	}
	if f.Metric != "" {
		w.write(kind, f.Metric, f.Help, f.Number(), f.Labels...)
	}
}

func (w writer) count(name, help string, v uint64) {
	w.write(prometheus.CounterValue, name, help, float64(v))
}

func (w writer) counts(name, help, label string, counts []Count) {
	for _, c := range counts {
		w.write(prometheus.CounterValue, name, help, float64(c.Value), label, c.Label)
	}
}

func (w writer) gauge(name, help string, v float64, labels ...string) {
	w.write(prometheus.GaugeValue, name, help, v, labels...)
}

func (w writer) summary(name, help string, n uint64, sum float64) {
	w.out <- prometheus.MustNewConstSummary(prometheus.NewDesc("katsubushi_"+name, help, nil, nil), n, sum, nil)
}

func (w writer) leases(l Leases) {
	w.counts("lease_extensions_total", "Extensions of windows, each lane's counted, by outcome.", "outcome", l.Extensions)
	w.counts("lease_acquisitions_total", "Attempts to get a worker id, by outcome.", "outcome", l.Acquisitions)
	w.summary("lease_call_duration_seconds", "Duration of the calls of what records the windows.", l.Calls, l.CallSeconds)
	if l.LastExtension != 0 {
		w.gauge("lease_last_extension_timestamp_seconds", "When an extension last succeeded, in Unix seconds.",
			l.LastExtension)
	}
}

// write sends one value; labels are name, value, name, value.
func (w writer) write(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	d := prometheus.NewDesc("katsubushi_"+name, help, names, nil)
	w.out <- prometheus.MustNewConstMetric(d, kind, v, values...)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
