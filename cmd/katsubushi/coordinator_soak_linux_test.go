package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// soak skips a test that takes minutes, unless it is asked for.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("KATSUBUSHI_SOAK") != "1" {
		t.Skip("KATSUBUSHI_SOAK=1 runs it")
	}
}

// How long it takes from the start of a daemon to its first id, with default settings, in a pool that
// nobody else uses and in one with a holder.
func TestProcessCoordinatorStarts(t *testing.T) {
	soak(t)
	for kind, begin := range coordinators {
		t.Run(kind, func(t *testing.T) {
			s := begin(t)
			pool := s.pool("p")
			pool.init(t)
			for _, busy := range []bool{false, true} {
				if busy {
					pool.start(t)
				}
				var took []time.Duration
				for range 20 {
					began := time.Now()
					d := pool.start(t)
					hurry(t, d, 1)
					took = append(took, time.Since(began))
					d.end(t, syscall.SIGTERM)
				}
				slices.Sort(took)
				t.Logf("%s, another holder %v: first id after %v in the median of 20, %v to %v", kind, busy, took[10], took[0], took[19])
			}
		})
	}
}

// What an idle daemon with a lease costs, compared with one that leases from Redis and writes as often.
func TestProcessCoordinatorIdle(t *testing.T) {
	soak(t)
	const measured = 50 * time.Second
	kinds := []string{"redis"}
	pools := map[string]poolOf{"redis": {[]string{"-redis", redistest.Start(t).URL()}}}
	for kind, begin := range coordinators {
		kinds = append(kinds, kind)
		pools[kind] = begin(t).pool("p")
	}
	daemons := map[string]*process{}
	for _, kind := range kinds {
		p := pools[kind]
		p.flags = append(p.flags, "-heartbeat", "2s")
		p.init(t)
		daemons[kind] = p.start(t, "-log-level", "info")
	}
	before := map[string]time.Duration{}
	for kind, d := range daemons {
		before[kind] = cpuTime(t, d.Process.Pid)
	}
	began := time.Now()
	redistest.Until(t, "it was measured for long enough", func() bool { return time.Since(began) > measured })
	used := map[string]time.Duration{}
	for kind, d := range daemons {
		used[kind] = cpuTime(t, d.Process.Pid) - before[kind]
	}
	for _, kind := range kinds {
		t.Logf("%s: %.3f ms of CPU time a second, %.2f times that with Redis", kind, used[kind].Seconds()*1000/measured.Seconds(), float64(used[kind])/float64(used["redis"]))
	}
}

// cpuTime is what a process has used, to the nanosecond: that of all threads that live.
func cpuTime(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// Upgrades with leases of real stores, under plain, encrypted and gRPC clients.
func TestProcessCoordinatorUpgrades(t *testing.T) {
	soak(t)
	for kind, begin := range coordinators {
		t.Run(kind, func(t *testing.T) {
			pool := begin(t).pool("upgraded", "-min-worker-id", "1", "-max-worker-id", "5")
			pool.init(t)
			upgradeUnderLoad(t, pool.flags)
		})
	}
}
