package engines

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// memoryInUse returns the memory in use after a collection.
func memoryInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// mallocs counts allocations while f runs n times. (testing.AllocsPerRun leaves only one processor,
// which the event loops would have to share.)
func mallocs(n int, f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// A request, a batch of requests or a large reply allocates nothing.
func TestNothingIsAllocatedPerRequest(t *testing.T) {
	if raceDetector {
		t.Skip("pools lose what they hold under the race detector")
	}
	everywhere(t, func(t *testing.T, m candidate, p place) {
		if m.name == "tinyuring" {
			t.Skip("does not apply: it has to make new buffers while old ones are in use")
		}
		r := start(t, m, p, nil)
		for _, test := range []struct {
			in    string
			reply int
		}{
			{"echo 1\r\n", 3},
			{strings.Repeat("echo 1\r\n", 50), 150},
			{strings.Repeat("echo 1\r\n", 5000), 15000},
			{"big 300000\r\n", 300000},
		} {
			c := r.dial()
			in, out := []byte(test.in), make([]byte, test.reply)
			ask := func() {
				if _, err := c.Write(in); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c.Conn, out); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 { // let buffers reach their size
				ask()
			}
			// The runtime itself allocates now and then, and a buffer grows if other programs keep
			// the loop from its processor. But one allocation in every second request would show up
			// every time.
			least := mallocs(200, ask)
			for try := 0; least > 100 && try < 20; try++ {
				least = min(least, mallocs(200, ask))
			}
			if least > 100 {
				t.Errorf("%d bytes in, %d out: at least %d allocations in 200 requests", len(in), test.reply, least)
			}
			c.Close()
		}
	})
}

// A collection must not have to wait for a loop, busy or asleep.
func TestCollectionsAreNotHeldUp(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		var before, after runtime.MemStats
		collect := func(what string) {
			runtime.ReadMemStats(&before)
			const n = 3
			for range n {
				runtime.GC()
			}
			runtime.ReadMemStats(&after)
			t.Logf("%s: world stopped for %d µs in each of %d collections", what,
				(after.PauseTotalNs-before.PauseTotalNs)/n/1000, n)
		}
		collect("idle")
		var clients []*client
		done := make(chan struct{})
		for range 4 {
			c := r.dial()
			clients = append(clients, c)
			go func() {
				defer func() { done <- struct{}{} }()
				for i := 0; ; i++ {
					if _, err := fmt.Fprintf(c, "echo %d\r\n", i); err != nil {
						return
					}
					if _, err := c.r.ReadSlice('\n'); err != nil {
						return
					}
				}
			}()
		}
		collect("busy")
		for _, c := range clients {
			c.Close()
			<-done
		}
	})
}
