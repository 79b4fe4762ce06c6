package engines

import (
	"fmt"
	"sync"
	"testing"
)

// onTwoLoops runs a test on every engine that has event loops, with two of them.
func onTwoLoops(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, m := range makers() {
		for _, network := range []string{"tcp", "unix"} {
			if m.name != "net" {
				t.Run(m.name+"/"+network, func(t *testing.T) { test(t, start(t, m, place{network, 2}, nil)) })
			}
		}
	}
}

// Whichever listener the kernel chooses, the loops have equally many connections, one after another and at once.
func TestConnectionsAreDealtEvenly(t *testing.T) {
	onTwoLoops(t, func(t *testing.T, r *rig) {
		even := func(when string) {
			t.Helper()
			if a, b := r.opened[0].Load(), r.opened[1].Load(); max(a-b, b-a) > 1 {
				t.Errorf("%s: %d connections on one loop, %d on the other", when, a, b)
			}
		}
		conns := make(chan *client, 71)
		for i := range 41 {
			conns <- r.greeted()
			even(fmt.Sprint("after connection ", i+1))
		}
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() { conns <- r.greeted() })
		}
		all.Wait()
		even("after 30 at once")
		for range cap(conns) {
			(<-conns).Close()
		}
	})
}

// Connections that have gone make room on their loop.
func TestClosedConnectionsMakeRoom(t *testing.T) {
	onTwoLoops(t, func(t *testing.T, r *rig) {
		byLoop := [2][]*client{}
		dial := func() {
			before := r.opened[0].Load()
			c := r.greeted()
			loop := 1 - (r.opened[0].Load() - before)
			byLoop[loop] = append(byLoop[loop], c)
		}
		for range 20 {
			dial()
		}
		for _, c := range byLoop[0] {
			c.Close()
		}
		kept := len(byLoop[1])
		eventually(t, func() string {
			if n := r.counters.Current.Load(); n != int64(kept) {
				return fmt.Sprintf("%d connections, want %d", n, kept)
			}
			return ""
		})
		byLoop[0] = nil
		for range 10 {
			dial()
		}
		if a, b := len(byLoop[0]), len(byLoop[1]); a != 10 || b != 10 {
			t.Errorf("%d connections on one loop, %d on the other", a, b)
		}
	})
}
