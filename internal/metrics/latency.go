package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// histogram shows s with native and with classic buckets. A Prometheus that asks for protobuf gets both and keeps what
// it is configured to; the text format has the classic ones only. started is when counting began.
func histogram(s *latency.Snapshot, started time.Time) *dto.Histogram {
	buckets := map[float64]uint64{}
	for i, n := range s.Classic() {
		buckets[latency.Bounds[i].Seconds()] = n
	}
	h := written(prometheus.MustNewConstNativeHistogram(plain, s.Count(), s.Sum(), s.Native(), nil, 0, latency.Schema, 0,
		started))
	h.Bucket = written(prometheus.MustNewConstHistogram(plain, s.Count(), s.Sum(), buckets)).Bucket
	return h
}

func written(m prometheus.Metric) *dto.Histogram {
	var out dto.Metric
	_ = m.Write(&out) // what is constant can always be written
	return out.Histogram
}

// plain stands for a description where none is used.
var plain = prometheus.NewDesc("plain", "", nil, nil)
