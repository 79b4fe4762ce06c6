package redis

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/storefaults"
	"github.com/katsubushi/katsubushi/v3/test/storetest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.Run(t, func(t testing.TB, n int) storetest.Pool {
		w := worldOf(t.(*testing.T), server)
		w.server.Do("FLUSHALL")
		w.config.Max = uint64(n)
		w.config.MaxSkew = 4e9 // the suite sets clocks back by 3 s
		w.init(New)
		return storetest.Pool{
			Min: 1, Max: uint64(n), Lease: lease, Refusal: script.ErrClockBack, Now: w.now, Advance: w.advance, Histories: 5,
			Open:  func(t testing.TB) workerid.Store { return w.daemon().Store },
			Crash: func(s workerid.Store) { s.(*Store).Close() },
		}
	})
}

func TestFaultsAreInTheDocumentation(t *testing.T) {
	t.Parallel()
	storefaults.Documented(t, "testdata/clocks.script", "testdata/clusters.script", "testdata/failover.script",
		"testdata/faults.script", "testdata/losses.script", "testdata/pool.script",
		"../../cmd/katsubushi/testdata/scenes/leases.script")
}
