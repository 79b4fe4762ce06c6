package collector_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/collector"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
	"github.com/prometheus/client_golang/prometheus"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "ids")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ids, err := katsubushi.Open(context.Background(), katsubushi.Config{Store: static.Dir(dir, 939)})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector.New(ids))
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "katsubushi_ready" {
			fmt.Println(f.GetHelp(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: 1 while ready: ids are issued, and nothing is wrong with strict order. 1
}

// TestNew: what a program with a lease shows, and that docs/METRICS.md, which is the daemon's, knows all of it.
func TestNew(t *testing.T) {
	manual, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	pool := redis.Config{
		URL: redistest.Start(t).URL(), Terms: workerid.Terms{Lease: 8 * time.Second, MaxSkew: time.Second / 2},
	}.Provider()
	layout := generator.Katsubushi()
	admin, err := pool.Lease(workerid.Terms{Layout: layout.Fingerprint(), Min: 1, Max: layout.MaxWorker()}).OpenAdmin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	childprocess.Until(t, "the pool answers", func() bool { // on a busy machine it may take long
		_, err := admin.Init(t.Context(), workerid.InitNew)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, workerid.ErrSkew) {
			t.Fatal(err)
		}
		return err == nil
	})
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := katsubushi.Open(t.Context(), katsubushi.Config{Store: pool, Counters: counters})
	if err != nil {
		t.Fatal(err)
	}
	for definition, n := range map[string]int{"orders sequence start=1000": 7, "old snowflake layout=instagram": 3} {
		name, err := ids.Name(t.Context(), definition)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := name.IDs(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector.New(ids))
	shown := func() map[string]string {
		values := map[string]string{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.Contains(string(manual), "`"+f.GetName()+"`") {
				t.Errorf("METRICS.md does not know %s", f.GetName())
			}
			for _, m := range f.GetMetric() {
				var line strings.Builder
				for _, l := range m.GetLabel() {
					fmt.Fprintf(&line, "%s=%s ", l.GetName(), l.GetValue())
				}
				value := m.GetGauge().GetValue() + m.GetCounter().GetValue() // one of them
				values[f.GetName()] += fmt.Sprintf("%s= %v\n", line.String(), value)
			}
		}
		return values
	}
	check := func(want map[string][]string) {
		t.Helper()
		got := shown()
		for name, parts := range want {
			for _, part := range parts {
				if !strings.Contains(got[name], part) {
					t.Errorf("%s has no %q:\n%s", name, part, got[name])
				}
			}
		}
	}
	worker := fmt.Sprintf("worker_id=%d ", ids.Status().Workers()[0])
	check(map[string][]string{
		"katsubushi_ready":                    {"= 1"},
		"katsubushi_lane_state":               {worker, "state=serving ", "pool=/0/TestNew "},
		"katsubushi_window_left_seconds":      {worker},
		"katsubushi_lease_acquisitions_total": {"outcome=ok = 1", "outcome=unanswered = 0"},
		"katsubushi_layout_info":              {"fingerprint=" + layout.Fingerprint() + " "},
		"katsubushi_record_info":              {"record=store = 1"},
		"katsubushi_errors_total":             {"reason=rate_exceeded = 0"},
		"katsubushi_time_field_left_seconds":  {"= "},
		"katsubushi_generator_issued_total":   {"generator=old kind=snowflake = 3", "generator=orders kind=sequence = 7"},
		"katsubushi_generator_ready":          {"generator=orders kind=sequence = 1"},
		"katsubushi_generator_last":           {"generator=orders kind=sequence = 1006"},
		"katsubushi_generator_at_hand":        {"generator=orders kind=sequence = "},
	})
	if err := ids.Close(); err != nil {
		t.Fatal(err)
	}
	check(map[string][]string{"katsubushi_ready": {"= 0"}})
}
