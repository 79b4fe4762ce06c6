package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// The tests in this file cause faults in whole daemons and a real Redis, on real clocks.

// alone are the settings of a pool with short leases and one worker id, so its daemons can only succeed each other.
var alone = []string{"-max-worker-id", "1", "-max-skew", "100ms", "-lease", aloneLease.String()}

const aloneLease = 4800 * time.Millisecond

// TestProcessKilledHolderAndSuccessor is what gave 144,577 duplicates with yaraus around kayac's
// daemon: whatever holds the lease is killed, and somebody else gets its worker id.
func TestProcessKilledHolderAndSuccessor(t *testing.T) {
	t.Parallel()
	pool := redisPool(t, redistest.Start(t).URL(), alone...)
	c := census{lanes: 1}
	for range 3 {
		p := pool.start(t)
		c.add(hurry(t, p, 20_000))
		p.Process.Kill()
	}
	c.verdict(t)
}

// TestProcessStoppedForThreeLeases: a daemon with unanswered requests is paused while another one gets
// its worker id and issues. When it wakes up it continues with those requests; then it waits until
// a worker id is free.
func TestProcessStoppedForThreeLeases(t *testing.T) {
	t.Parallel()
	pool := redisPool(t, redistest.Start(t).URL(), alone...)
	c := census{lanes: 1}
	sleeper := pool.start(t)
	asked := c.load(t, sleeper.Addr(), 4, 20)
	asked.awaitMore(t, 2000)
	sleeper.Pause(t)
	stopped := time.Now()

	other := pool.start(t) // when the sleeper's lease is over
	c.add(hurry(t, other, 5000))
	await(t, "three leases pass", func() bool { return time.Since(stopped) > 3*aloneLease })
	l := c.load(t, other.Addr(), 2, 20)
	l.awaitMore(t, 1000)
	sleeper.Resume(t)
	await(t, "it finds that its lease is lost", func() bool {
		return strings.Contains(sleeper.Logged(), "the lease is lost")
	})
	l.awaitMore(t, 2000)
	l.finish(t)
	served := func() int { return strings.Count(sleeper.Logged(), `"state":"serving"`) }
	before := served()
	other.Signal(t, syscall.SIGTERM)
	await(t, "it has a worker id again", func() bool { return served() > before })
	asked.awaitMore(t, 2000)
	asked.finish(t)
	c.verdict(t)
}

// A daemon that may not have a worker id says why, without the password, tries again and says nothing more, and comes
// up by itself once it may.
func TestProcessWaitsUntilItMayLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	pool := redisPool(t, url)
	server.Do("ACL", "SETUSER", "ids", "on", ">old", "~*", "+@all")
	port := freePort(t)
	p := pool.launch(t, "-redis", strings.Replace(url, "//", "//ids:hush@", 1), "-http-port", port)
	awaitReadyz(t, port, 503, "no worker id yet", server.Addr()+": WRONGPASS ")
	await(t, "it tries again", func() bool { return readStats(t, port).AcquisitionsFailed >= 4 })
	p.Says(t, `"msg":"lease"`)
	if n := strings.Count(p.Logged(), `"msg":"lease"`); n != 1 {
		t.Errorf("it has said so %d times", n)
	}
	if _, _, stats := httpGet(port, "/stats"); strings.Contains(stats+p.Logged(), "hush") {
		t.Error("the password is shown")
	}
	server.Do("ACL", "SETUSER", "ids", ">hush")
	p.WaitListening(t)
	awaitReadyz(t, port, 200, "ready", "")
}
