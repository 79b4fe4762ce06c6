package main

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// TestProcessStore: -store does for the daemon, `lease` and `run` what -redis does.
func TestProcessStore(t *testing.T) {
	t.Parallel()
	flags := append([]string{"-store", redistest.Start(t).URL()}, shortLease...)
	got := printed(t, append([]string{"lease", "init", "-how", "new"}, flags...)...)
	if !strings.HasPrefix(got, "recorded in redis://") || !strings.HasSuffix(got, "\nmade: its worker ids can be had\n") {
		t.Errorf("lease init: %s", got)
	}
	if w := workerOf(t, start(t, flags...)); w != 1 {
		t.Errorf("the daemon has worker id %d", w)
	}
	if got := printed(t, append(append([]string{"run"}, flags...), "-log-level", "error", "--", "echo",
		"it is {}")...); got != "it is 2\n" {
		t.Errorf("run: %s", got)
	}
	if got := printed(t, append([]string{"lease", "stats"}, flags...)...); !strings.Contains(got,
		"\nclient_get_id_success       2\n") {
		t.Errorf("lease stats: %s", got)
	}
}

type plainAdmin struct{ workerid.Admin }

func TestAVerbThatAStoreHasNotIsRefused(t *testing.T) {
	for verb, test := range map[string]struct {
		prepare func(*call) work
		want    string
	}{
		"stats": {leaseCounts, "lease stats: Redis keeps no such counts; `lease list` shows its worker ids"},
		"replicas": {leaseReplicas,
			"lease replicas: Redis has no replicas to wait for: a majority of its servers has what it acknowledged"},
		"reset-clock": {leaseResetClock, "lease reset-clock: Redis has no clock of its own"},
		"restored": {leaseRestored, "lease restored: Redis need not be told: daemons notice if it was started with " +
			"older data, and wait. If old keys were put back while it ran, restart it"},
	} {
		lease := subcommandNamed("lease")
		c := &call{command: lease, ownValues: lease.values}
		if err := c.read([]string{verb, "-store", "redis://127.0.0.1:1"}); err != nil || len(c.problems) > 0 {
			t.Fatal(err, c.problems)
		}
		if _, err := test.prepare(c)(t.Context(), plainAdmin{}); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", verb, err)
		}
		if verb != "restored" { // which Redis really has not
			continue
		}
		pool, err := stores.OpenAdmin(c.Store)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := test.prepare(c)(t.Context(), pool); err == nil || err.Error() != test.want {
			t.Error(err)
		}
	}
}
