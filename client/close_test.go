package client

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleClientSleeps: without calls nothing happens but DNS's look-ups.
func TestIdleClientSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", server.serve())
		c := n.newClient(t, Config{Prefetch: 100}, "a:1", "b:1")
		for range 1000 {
			must(t)(c.ID(t.Context()))
		}
		time.Sleep(2 * time.Second) // time-outs and back-offs that were under way
		synctest.Wait()
		// With no timer, nothing of the client's runs: the clock goes straight to this test's own.
		if c.wake.Stop() {
			t.Error("the client waits for a back-off")
		}
		for k := range c.conns {
			if k.timer.Stop() {
				t.Error("a connection waits for its time-out")
			}
		}
		before := n.dialled("b:1")
		time.Sleep(time.Hour)
		if n.dialled("b:1") != before {
			t.Error("an idle client dials")
		}
	})
}
