package metrics

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// handlerOf shows durations that were counted since 5 s after 1970.
func handlerOf(s latency.Snapshot) http.Handler {
	return Handler(time.Unix(5, 0), func(emit func(figure.Figure)) {
		emit(figure.Figure{Metric: "request_duration_seconds", Value: &s, Help: "Time."})
	})
}

// scrapeLatency asks as a Prometheus that takes native histograms does.
func scrapeLatency(t *testing.T, s latency.Snapshot) *dto.Histogram {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	handlerOf(s).ServeHTTP(w, r)
	d := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Result().Header))
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if f.GetName() == "katsubushi_request_duration_seconds" {
			return f.Metric[0].Histogram
		}
	}
}

// TestLatencyIsNativeAndClassic: the same durations are in both kinds of buckets.
func TestLatencyIsNativeAndClassic(t *testing.T) {
	var loop latency.Histogram
	var s latency.Snapshot
	loop.Observe(3*time.Microsecond, 10)
	loop.Observe(3*time.Microsecond+200*time.Nanosecond, 7)
	loop.Observe(2*time.Second, 4)
	s.Add(&loop)
	h := scrapeLatency(t, s)
	if h.GetSampleCount() != 21 || math.Abs(h.GetSampleSum()-(8+52.4e-6)) > 1e-9 || h.GetSchema() != latency.Schema ||
		h.GetCreatedTimestamp().GetSeconds() != 5 {
		t.Errorf("count, sum, schema or start: %v", h)
	}
	for _, b := range h.Bucket {
		want := map[bool]uint64{true: 17}[b.GetUpperBound() >= 3.2e-6]
		if b.GetUpperBound() >= 2 {
			want = 21
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d took at most %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	if len(h.Bucket) != len(latency.Bounds) {
		t.Errorf("%d classic buckets", len(h.Bucket))
	}
	got, i, k, count := map[float64]int64{}, int32(0), 0, int64(0)
	for _, span := range h.PositiveSpan {
		i += span.GetOffset()
		for range span.GetLength() {
			if count += h.PositiveDelta[k]; count > 0 {
				got[math.Exp2(float64(i)/8)] = count
			}
			i, k = i+1, k+1
		}
	}
	for bound, n := range got {
		low := bound / math.Exp2(1.0/8)
		if want := map[bool]int64{true: 10}[low < 3e-6 && 3e-6 <= bound] +
			map[bool]int64{true: 7}[low < 3.2e-6 && 3.2e-6 <= bound] +
			map[bool]int64{true: 4}[low < 2 && 2 <= bound]; n != want {
			t.Errorf("%d took from %v to %v s, want %d", n, low, bound, want)
		}
	}
	if len(got) < 2 {
		t.Errorf("native buckets: %v", got)
	}
	if h := scrapeLatency(t, latency.Snapshot{}); len(h.PositiveSpan) == 0 {
		t.Error("without answers it is no native histogram")
	}
	w := httptest.NewRecorder()
	handlerOf(s).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`_bucket{le="2e-06"} 0`, `_bucket{le="5e-06"} 17`, `_bucket{le="+Inf"} 21`,
		`_count 21`} {
		if !strings.Contains(w.Body.String(), "\nkatsubushi_request_duration_seconds"+line+"\n") {
			t.Errorf("the text has no %s", line)
		}
	}
}
