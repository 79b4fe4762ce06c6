package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func snapshot() Snapshot {
	return Snapshot{
		IDs: 12, Commands: []Count{{"get", 3}, {"version", 1}}, Errors: []Count{{"malformed", 2}},
		Connections: 4, ConnectionsAccepted: 9, Ready: true,
		Lanes: []Lane{
			{Worker: 1, State: "serving", RunAhead: 0.25, WindowIsOpen: true},
			{Worker: 9, State: "degraded", RunAhead: -3, WindowLeft: 48.5},
		},
		ClockDifference: -0.002, ClockAdjustments: []Count{{"slew", 8}},
	}
}

func TestFigures(t *testing.T) {
	c := &collector{Build{"1.2.3", "go1.26", "net"}, snapshot}
	const want = `
# HELP katsubushi_build_info What is running; always 1.
# TYPE katsubushi_build_info gauge
katsubushi_build_info{engine="net",goversion="go1.26",version="1.2.3"} 1
# HELP katsubushi_commands_total Commands by kind.
# TYPE katsubushi_commands_total counter
katsubushi_commands_total{command="get"} 3
katsubushi_commands_total{command="version"} 1
# HELP katsubushi_errors_total Requests answered by an error, by reason.
# TYPE katsubushi_errors_total counter
katsubushi_errors_total{reason="malformed"} 2
# HELP katsubushi_ids_issued_total Ids handed out.
# TYPE katsubushi_ids_issued_total counter
katsubushi_ids_issued_total 12
# HELP katsubushi_run_ahead_seconds How far the last id lies ahead of the clock; negative while idle.
# TYPE katsubushi_run_ahead_seconds gauge
katsubushi_run_ahead_seconds{lane="0",worker_id="1"} 0.25
katsubushi_run_ahead_seconds{lane="1",worker_id="9"} -3
# HELP katsubushi_window_left_seconds Time until the lane's window ends.
# TYPE katsubushi_window_left_seconds gauge
katsubushi_window_left_seconds{lane="1",worker_id="9"} 48.5
`
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "katsubushi_build_info", "katsubushi_commands_total",
		"katsubushi_errors_total", "katsubushi_ids_issued_total", "katsubushi_run_ahead_seconds", "katsubushi_window_left_seconds"); err != nil {
		t.Error(err)
	}
}

func TestNamesFollowPrometheusConventions(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{Build{}, snapshot})
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestTheProcessAndTheRuntimeAreThereToo(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(Build{}, snapshot).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, name := range []string{"katsubushi_ready 1", "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(w.Body.String(), "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}
