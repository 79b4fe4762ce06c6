package metrics

import (
	"iter"
	"net/http/httptest"
	"slices"
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
		{Metric: "peer_up", Labels: []string{"zone", "b", "addr", "a\xff"}, Value: false, Help: "Peers."},
		{Metric: "peer_seconds", Labels: []string{"zone", "b", "addr", "a\xff"}, Value: time.Second, Help: "Their age."},
		{Stat: "only_there", Value: "text"},
	} {
		emit(f)
	}
	labels := []string{"loop", ""} // which emit may not keep
	for _, loop := range []string{"0", "1"} {
		labels[1] = loop
		emit(figure.Figure{Metric: "loop_ids_total", Labels: labels, Value: uint64(6), Count: true, Help: "A loop's."})
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
# HELP katsubushi_loop_ids_total A loop's.
# TYPE katsubushi_loop_ids_total counter
katsubushi_loop_ids_total{loop="0"} 6
katsubushi_loop_ids_total{loop="1"} 6
# HELP katsubushi_peer_seconds Their age.
# TYPE katsubushi_peer_seconds gauge
katsubushi_peer_seconds{addr="a�",zone="b"} 1
# HELP katsubushi_peer_up Peers.
# TYPE katsubushi_peer_up gauge
katsubushi_peer_up{addr="a�",zone="b"} 0
# HELP katsubushi_ready 1 while ids are issued.
# TYPE katsubushi_ready gauge
katsubushi_ready 1
`
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(&collector{read: some})
	if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	got := shown(some)
	var own []string
	for line := range strings.Lines(got) {
		if strings.Contains(line, "katsubushi_") {
			own = append(own, line)
		}
	}
	if s := "\n" + strings.Join(own, ""); s != want {
		t.Errorf("the handler, which has no registry for them, shows %s", s)
	}
	for _, name := range []string{"go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(got, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
	if !slices.IsSorted(slices.Collect(helped(got))) {
		t.Error("not sorted by name")
	}
}

func shown(read func(emit func(figure.Figure))) string {
	w := httptest.NewRecorder()
	Handler(time.Time{}, read).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// helped returns the names of the families of an exposition.
func helped(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(line, "# HELP "); ok && !yield(strings.Fields(name)[0]) {
				return
			}
		}
	}
}
