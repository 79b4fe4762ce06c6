package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastHeap is the size of the heap, in bytes, below which garbage is not collected once the HTTP or the gRPC port
// has been busy. Each request leaves some kilobytes of garbage, and little else is in the heap: without this Go
// collects at 4 MB, which is most of what a call of gRPC costs. It is memory that the daemon may hold in
// addition. GOMEMLIMIT goes before it.
const leastHeap = 32 << 20

// growHeap has the heap grow to leastHeap from now on, for the rest of the process's life; it leaves a
// GOGC of the environment alone.
func growHeap() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 0
	var adjust func(*[16]byte)
	adjust = func(cycle *[16]byte) {
		metrics.Read(live)
		if want := gcPercent(live[0].Value.Uint64()); want != now { // it stops the program for a moment
			debug.SetGCPercent(want)
			now = want
		}
		runtime.SetFinalizer(cycle, adjust) // runs after the next collection
	}
	adjust(new([16]byte))
}

// gcPercent is the GOGC with which a heap with so many live bytes is collected at leastHeap, or 100. It is
// coarse, so that it changes seldom.
func gcPercent(live uint64) int {
	const coarse, smallest = 25, 4 << 20 // Go takes no heap for smaller than that
	percent := leastHeap*100/max(int(live), smallest) - 100
	return max(100, percent/coarse*coarse)
}
