package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// some are figures of every sort.
func some(emit func(figure.Figure)) {
	for _, f := range []figure.Figure{
		{Metric: "ready", Value: true, Help: "1 while ids are issued."},
		{Metric: "ids_total", Stat: "ids", Value: uint64(12), Count: true, Help: "Ids."},
		{Metric: "errors_total", Labels: []string{"reason", "clock"}, Value: uint64(3), Count: true, Help: "Errors."},
		{Metric: "errors_total", Labels: []string{"reason", "rate"}, Value: uint64(4), Count: true, Help: "Errors."},
		{Metric: "errors_total", Labels: []string{"lane", "7"}, Value: uint64(5), Count: true, Help: "Errors."},
		{Metric: "ahead_seconds", Value: -250 * time.Millisecond, Help: "The clock."},
		{Metric: "call_seconds", Value: figure.Sum{N: 28, Took: 1500 * time.Millisecond}, Help: "Calls."},
		{Stat: "only_there", Value: "text"},
	} {
		emit(f)
	}
}

func TestFigures(t *testing.T) {
	const want = `
# HELP katsubushi_ahead_seconds The clock.
# TYPE katsubushi_ahead_seconds gauge
katsubushi_ahead_seconds -0.25
# HELP katsubushi_call_seconds Calls.
# TYPE katsubushi_call_seconds summary
katsubushi_call_seconds_sum 1.5
katsubushi_call_seconds_count 28
# HELP katsubushi_errors_total Errors.
# TYPE katsubushi_errors_total counter
katsubushi_errors_total{lane="7"} 5
katsubushi_errors_total{reason="clock"} 3
katsubushi_errors_total{reason="rate"} 4
# HELP katsubushi_ids_total Ids.
# TYPE katsubushi_ids_total counter
katsubushi_ids_total 12
# HELP katsubushi_ready 1 while ids are issued.
# TYPE katsubushi_ready gauge
katsubushi_ready 1
`
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{read: some})
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestTheProcessAndTheRuntimeAreThereToo(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(time.Time{}, some).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, name := range []string{"katsubushi_ready 1", "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(w.Body.String(), "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}
