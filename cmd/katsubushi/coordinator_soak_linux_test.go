package main

import (
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// How long it takes from the start of a daemon to its first id, with default settings, in a pool that
// nobody else uses and in one with a holder.
func TestProcessCoordinatorStarts(t *testing.T) {
	soakOnly(t)
	for kind, begin := range coordinators {
		t.Run(kind, func(t *testing.T) {
			s := begin(t)
			pool := s.pool("starts")
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
				t.Logf("%s, another holder %v: first id after %v in the median of 20, %v to %v", kind, busy, took[10], took[0],
					took[19])
			}
		})
	}
}

// What an idle daemon with a lease costs, compared with one that leases from Redis and writes as often, and
// what the library of each store costs without a daemon.
func TestProcessCoordinatorIdle(t *testing.T) {
	soakOnly(t)
	const measured = 50 * time.Second
	kinds := []string{"redis"}
	redis := redistest.Start(t)
	pools := map[string]poolOf{"redis": {[]string{"-redis", redis.URL()}}}
	addrs := map[string]string{"redis": redis.Addr()}
	for kind, begin := range coordinators {
		s := begin(t)
		kinds, pools[kind], addrs[kind] = append(kinds, kind), s.pool("idle"), s.addr
	}
	pids := map[string]int{}
	for _, kind := range kinds {
		p := pools[kind]
		p.flags = append(p.flags, "-heartbeat", beat.String())
		p.init(t)
		pids[kind] = p.start(t, "-log-level", "info").Process.Pid
		pids[kind+", the library alone"] = startBare(t, kind, addrs[kind])
	}
	before := map[string]int64{}
	for what, pid := range pids {
		_, before[what] = sumOfThreads(t, pid)
	}
	began := time.Now()
	await(t, "it was measured for long enough", func() bool { return time.Since(began) > measured })
	used := map[string]float64{} // ms a second
	for what, pid := range pids {
		_, cpu := sumOfThreads(t, pid)
		used[what] = float64(cpu-before[what]) / 1e6 / measured.Seconds()
	}
	for _, what := range slices.Sorted(maps.Keys(used)) {
		t.Logf("%-30s %.3f ms of CPU time a second, %.2f times the daemon with Redis",
			what, used[what], used[what]/used["redis"])
	}
}

// Upgrades with leases of real stores, under plain, encrypted and gRPC clients.
func TestProcessCoordinatorUpgrades(t *testing.T) {
	soakOnly(t)
	for kind, begin := range coordinators {
		t.Run(kind, func(t *testing.T) {
			pool := begin(t).pool("upgraded", "-min-worker-id", "1", "-max-worker-id", "5")
			pool.init(t)
			upgradeUnderLoad(t, pool.flags)
		})
	}
}
