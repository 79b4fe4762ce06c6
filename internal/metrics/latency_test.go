package metrics

import (
	"fmt"
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
	got := fmt.Sprintf("%d took %.7f s, schema %d, since %d\n", h.GetSampleCount(), h.GetSampleSum(), h.GetSchema(),
		h.GetCreatedTimestamp().GetSeconds())
	for _, span := range h.PositiveSpan { // the next one begins so many buckets after it
		got += fmt.Sprintf("%+d %d, ", span.GetOffset(), span.GetLength())
	}
	got += fmt.Sprintln("deltas", h.PositiveDelta)
	for _, b := range h.Bucket {
		got += fmt.Sprintf("%v: %d\n", b.GetUpperBound(), b.GetCumulativeCount())
	}
	// 3 and 3.2 µs are above 2^(-147/8) s and at most 2^(-146/8) s; 2 s are 2^(8/8) s.
	const want = `21 took 8.0000524 s, schema 3, since 5
-146 1, +153 1, deltas [17 -13]
2e-06: 0
5e-06: 17
1e-05: 17
2.5e-05: 17
5e-05: 17
0.0001: 17
0.00025: 17
0.0005: 17
0.001: 17
0.0025: 17
0.005: 17
0.01: 17
0.025: 17
0.05: 17
0.1: 17
0.25: 17
0.5: 17
1: 17
2.5: 21
10: 21
`
	if got != want {
		t.Errorf("%s", got)
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
