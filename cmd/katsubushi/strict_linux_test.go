package main

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// Three daemons lead sequences on an etcd of three members. Leaders are demoted, killed, stopped and cut
// off under load: no value comes twice, and none before a smaller one.
func TestStrictFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, 3)
	f.pause = 10 * time.Millisecond
	f.ask(3, 2)
	f.servedByAll("at first")
	for range 2 {
		moment := f.now()
		f.mustDemote("all")
		f.served("after a demote")
		t.Logf("the slowest request beside demoting all groups took %v", f.slowest(moment, f.now()))
	}

	// A new process takes over from one that leads.
	for tries := 0; f.upgrades == 0 && tries < 5; tries++ { // a busy machine may be too slow
		d := f.leaderOf("orders")
		d.upgrade(f)()
		f.servedByAll("after an upgrade")
	}
	if f.upgrades == 0 {
		t.Error("no daemon was upgraded")
	}

	// One is killed and another one stands still: the third leads everything.
	killed := f.leaderOf("orders")
	i := slices.Index(f.daemons, killed)
	stopped, left := f.daemons[(i+1)%3], f.daemons[(i+2)%3]
	killed.end(t, syscall.SIGKILL)
	stopped.p.Pause(t)
	t.Logf("after a kill and a stop it is served after %v", f.served("after a kill and a stop"))
	stopped.p.Resume(t)
	killed.launch(t)
	f.servedByAll("after both are back")

	// The one that leads most is cut off from etcd, whose leader ends too.
	left.cut(redistest.Hold)
	member := etcdtest.Leader(f.members)
	member.Kill()
	f.ledByOthers(left.address())
	f.served("after the leader was cut off")
	member.LaunchOnly()
	left.cut(redistest.Pass)
	f.servedByAll("after everything is healed")
	f.stop()
}

// Demotes and clean stops, one after another: no client is refused, and no value is lost.
func TestStrictDemote(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, 3, "-max-wait", "1m", "-drain-timeout", "1m")
	rounds := 3
	f.pause = 5 * time.Millisecond // so that the clients leave time to those they ask, and are not slow themselves
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		rounds, f.pause = 300, time.Millisecond
	}
	f.ask(3, 2)
	f.servedByAll("at first")
	pauses := map[string][]time.Duration{} // the slowest request beside each
	beside := func(what string, do func()) (took time.Duration) {
		t.Helper()
		moment := f.now()
		do()
		f.served("after a " + what)
		end := f.now()
		pauses[what] = append(pauses[what], f.slowest(moment, end))
		return time.Duration(end - moment)
	}
	for i := range rounds {
		which := "all"
		if i%3 == 1 {
			d := f.leaderOf("orders")
			which = d.address()
		}
		took := beside("demote", func() {
			f.mustDemote(which)
		})
		if rounds > 3 && i%3 == 0 { // what this machine does to clients by itself
			beside("time without a demote, as long", func() { time.Sleep(took) })
		}
	}
	for i := range max(2, rounds/30) {
		d := f.daemons[i%len(f.daemons)]
		beside("clean stop", func() { d.end(t, syscall.SIGTERM) })
		d.launch(t)
		f.servedByAll("after the start")
	}
	f.stop()
	if len(f.refused) > 0 {
		t.Errorf("clients were refused: %v", f.refused)
	}
	for i, name := range strictNames {
		if name == timestamps { // the clock makes gaps
			continue
		}
		for _, gap := range f.gaps(name, uint64(i+1)) {
			t.Error(gap)
		}
	}
	for what, list := range pauses {
		t.Logf("the slowest request beside each %s, %s", what, percentiles(list))
	}
	var all sync.WaitGroup
	for _, d := range f.daemons {
		all.Go(func() { d.end(t, syscall.SIGTERM) })
	}
	all.Wait()
}

// A leader is killed, again and again: how long it takes until every name is served.
func TestStrictKills(t *testing.T) {
	soakOnly(t)
	t.Parallel()
	f := startFleet(t, 1, 3)
	f.pause = time.Millisecond
	f.ask(3, 2)
	f.servedByAll("at first")
	var times []time.Duration
	for range 10 {
		d := f.leaderOf("orders")
		d.end(t, syscall.SIGKILL)
		times = append(times, f.served("after a kill"))
		d.launch(t)
		f.servedByAll("after the start")
	}
	f.stop()
	t.Logf("served again %s: %v", percentiles(times), times)
}
