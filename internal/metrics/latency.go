package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// A bothWays is a histogram with native and with classic buckets. A Prometheus that asks for protobuf gets
// both and keeps what it is configured to; the text format has the classic ones only.
type bothWays struct{ native, classic prometheus.Metric }

func (h bothWays) Desc() *prometheus.Desc { return h.native.Desc() }

func (h bothWays) Write(out *dto.Metric) error {
	var classic dto.Metric
	if err := h.classic.Write(&classic); err != nil {
		return err
	}
	if err := h.native.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = classic.Histogram.Bucket
	return nil
}

// histogram shows s. started is when counting began.
func histogram(d *prometheus.Desc, s *latency.Snapshot, started time.Time) prometheus.Metric {
	buckets := map[float64]uint64{}
	for i, n := range s.Classic() {
		buckets[latency.Bounds[i].Seconds()] = n
	}
	return bothWays{
		prometheus.MustNewConstNativeHistogram(d, s.Count(), s.Sum(), s.Native(), nil, 0, latency.Schema, 0, started),
		prometheus.MustNewConstHistogram(d, s.Count(), s.Sum(), buckets),
	}
}
