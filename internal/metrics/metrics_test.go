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
		Ready: true,
		Lanes: []Lane{
			{Worker: 0, HasWorker: true, State: "serving", RunAhead: 0.25, WindowIsOpen: true},
			{Worker: 9, HasWorker: true, State: "degraded", RunAhead: -3, WindowLeft: 48.5},
			{State: "acquiring"},
		},
		Leases: Leases{
			Acquisitions: []Count{{"ok", 2}, {"none_free", 5}}, Extensions: []Count{{"ok", 20}, {"unanswered", 1}},
			Calls: 28, CallSeconds: 1.5, LastExtension: 1732060802.5,
		},
		ClockAdjustments: []Count{{"slew", 8}},
	}
}

func TestFigures(t *testing.T) {
	c := &collector{Build{Version: "1.2.3", GoVersion: "go1.26", Engine: "net"}, snapshot}
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
# HELP katsubushi_lane_state The state of a lane's lease, and the pool that has its worker id; always 1.
# TYPE katsubushi_lane_state gauge
katsubushi_lane_state{lane="0",pool="",state="serving",worker_id="0"} 1
katsubushi_lane_state{lane="1",pool="",state="degraded",worker_id="9"} 1
katsubushi_lane_state{lane="2",pool="",state="acquiring",worker_id=""} 1
# HELP katsubushi_lease_acquisitions_total Attempts to get a worker id, by outcome.
# TYPE katsubushi_lease_acquisitions_total counter
katsubushi_lease_acquisitions_total{outcome="none_free"} 5
katsubushi_lease_acquisitions_total{outcome="ok"} 2
# HELP katsubushi_lease_call_duration_seconds Duration of the calls of what records the windows.
# TYPE katsubushi_lease_call_duration_seconds summary
katsubushi_lease_call_duration_seconds_sum 1.5
katsubushi_lease_call_duration_seconds_count 28
# HELP katsubushi_lease_extensions_total Extensions of windows, each lane's counted, by outcome.
# TYPE katsubushi_lease_extensions_total counter
katsubushi_lease_extensions_total{outcome="ok"} 20
katsubushi_lease_extensions_total{outcome="unanswered"} 1
# HELP katsubushi_lease_last_extension_timestamp_seconds When an extension last succeeded, in Unix seconds.
# TYPE katsubushi_lease_last_extension_timestamp_seconds gauge
katsubushi_lease_last_extension_timestamp_seconds 1.7320608025e+09
# HELP katsubushi_run_ahead_seconds How far the last id lies ahead of the clock; negative while idle.
# TYPE katsubushi_run_ahead_seconds gauge
katsubushi_run_ahead_seconds{lane="0",worker_id="0"} 0.25
katsubushi_run_ahead_seconds{lane="1",worker_id="9"} -3
# HELP katsubushi_window_left_seconds Time until the lane's window ends.
# TYPE katsubushi_window_left_seconds gauge
katsubushi_window_left_seconds{lane="1",worker_id="9"} 48.5
`
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), strings.Fields(`katsubushi_build_info katsubushi_commands_total
		katsubushi_errors_total katsubushi_ids_issued_total katsubushi_run_ahead_seconds katsubushi_window_left_seconds katsubushi_lane_state
		katsubushi_lease_acquisitions_total katsubushi_lease_call_duration_seconds katsubushi_lease_extensions_total
		katsubushi_lease_last_extension_timestamp_seconds`)...); err != nil {
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
