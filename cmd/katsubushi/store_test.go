package main

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

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
