package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// A shortLease is the shortest that the default skew allows, so that tests need not wait for minutes.
var shortLease = []string{"-max-skew", "200ms", "-lease", "6s", "-min-worker-id", "1", "-max-worker-id", "5"}

// runLease runs `katsubushi lease` on a pool, as -json prints it.
func runLease(t *testing.T, url string, result any, args ...string) {
	t.Helper()
	args = append(append([]string{"lease", args[0], "-json", "-redis", url}, shortLease...), args[1:]...)
	code, stdout, stderr, _ := patiently(environment(), args...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), result); err != nil {
		t.Fatalf("%s: %v", stdout, err)
	}
}

func initPool(t *testing.T, url string) {
	t.Helper()
	var made initialised
	if runLease(t, url, &made, "init", "-how", "new"); made.Result != redis.Made {
		t.Fatalf("lease init: %s", made.Result)
	}
}

func launchLeasing(t *testing.T, url string, more ...string) *process {
	t.Helper()
	return launch(t, append(append([]string{"-redis", url}, shortLease...), more...)...)
}

// workerOf is the worker id of a daemon's next id.
func workerOf(t *testing.T, p *process) uint64 {
	t.Helper()
	return generator.Katsubushi().Decompose(hurry(t, p, 1)[0]).Worker
}

// states returns the state that each lane of a daemon has by its log.
func (p *process) states() map[float64]string {
	last := map[float64]string{}
	for line := range strings.Lines(p.Logged()) {
		var e struct {
			Msg, State string
			Lane       float64
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "lease" {
			last[e.Lane] = e.State
		}
	}
	return last
}

// serve reports whether so many lanes of the daemon serve.
func (p *process) serve(lanes int) bool {
	n := 0
	for _, state := range p.states() {
		if state == workerid.Serving.String() {
			n++
		}
	}
	return n == lanes
}
