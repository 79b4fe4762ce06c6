package names

import (
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// TestTimeWithoutLeader: the time is counted in which nobody issues, and only that.
func TestTimeWithoutLeader(t *testing.T) {
	n := room(t, Config{
		Counters: stores.Counters{URL: etcdtest.URL(t, etcdtest.Start(t))}, Definitions: "orders sequence order=strict",
	})
	n.Reachable("127.0.0.1:1")
	childprocess.Until(t, "it leads", func() bool {
		leading, _ := n.Leaders()
		return leading == leader.Groups
	})
	e, g := n.sequences.election, leader.GroupOf("orders")
	missing := func(e *election) time.Duration {
		e.watched.mu.Lock()
		defer e.watched.mu.Unlock()
		return e.watched.without[g]
	}
	childprocess.Until(t, "it may issue", func() bool { // it may have stood still for longer than it was permitted to
		before := missing(e)
		e.account(time.Hour)
		return missing(e) < before+time.Hour
	})
	n.HandOver() // there are no others: it leads on
	if err := n.Ready(); err == nil || err.Error() != "no worker id yet" {
		t.Errorf("without a lane: %v", err)
	}

	idle := n.newElection(e.store) // like a daemon that never heard of a leader
	idle.known = e.known
	idle.runner.Store(leader.NewRunner(leader.Config{}))
	idle.account(time.Hour)
	if n := missing(idle); n != time.Hour {
		t.Errorf("%v were missing in an hour", n)
	}
}
