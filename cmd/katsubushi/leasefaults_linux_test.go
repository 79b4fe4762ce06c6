package main

import (
	"bufio"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// The tests in this file cause faults in whole daemons and a real Redis, on real clocks, under load.

// alone returns the settings of a pool with short leases and one worker id, so its daemons can only
// succeed each other.
var alone = []string{"-max-worker-id", "1", "-max-skew", "100ms", "-lease", "4800ms"}

const aloneLease = 4800 * time.Millisecond

func initAlone(t *testing.T, url string) {
	t.Helper()
	var made initialised
	if runLease(t, url, &made, append([]string{"init", "-how", "new"}, alone...)...); made.Result != redis.Made {
		t.Fatalf("lease init: %s", made.Result)
	}
}

// came returns how often a daemon's lanes have entered a state.
func (p *process) came(state string) int {
	return strings.Count(p.Logged(), `"state":"`+state+`"`)
}

// TestProcessKilledHolderAndSuccessor is what gave 144,577 duplicates with yaraus around kayac's
// daemon: whatever holds the lease is killed, and somebody else gets its worker id.
func TestProcessKilledHolderAndSuccessor(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	initAlone(t, url)
	c := census{lanes: 1}
	for range 3 {
		p := launchLeasing(t, url, alone...)
		p.WaitListening(t)
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
	url := redistest.Start(t).URL()
	initAlone(t, url)
	c := census{lanes: 1}
	sleeper := launchLeasing(t, url, alone...)
	sleeper.WaitListening(t)
	asked := c.load(t, sleeper.Addr(), 4, 20)
	asked.awaitMore(t, 2000)
	sleeper.Pause(t)
	stopped := time.Now()

	other := launchLeasing(t, url, alone...)
	other.WaitListening(t) // when the sleeper's lease is over
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
	serving := sleeper.came("serving")
	other.Signal(t, syscall.SIGTERM)
	await(t, "it has a worker id again", func() bool { return sleeper.came("serving") > serving })
	asked.awaitMore(t, 2000)
	asked.finish(t)
	c.verdict(t)
}

// TestProcessWipeWhileItsHolderStandsStill: Redis is emptied while the only daemon is paused, so that
// nobody restores the pool. An operator does what the next daemon's log says; that daemon waits
// until the paused one's window is over.
func TestProcessWipeWhileItsHolderStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	initAlone(t, url)
	c := census{lanes: 1}
	sleeper := launchLeasing(t, url, alone...)
	sleeper.WaitListening(t)
	asked := c.load(t, sleeper.Addr(), 4, 20)
	asked.awaitMore(t, 1000)
	sleeper.Pause(t)
	server.Do("FLUSHALL")
	other := launchLeasing(t, url, alone...)
	await(t, "it says what to do", func() bool {
		return strings.Contains(other.Logged(), "`katsubushi lease init` does it")
	})
	var made initialised
	if runLease(t, url, &made, append([]string{"init"}, alone...)...); made.Result != redis.Waiting {
		t.Errorf("lease init: %s", made.Result)
	}
	other.WaitListening(t)
	l := c.load(t, other.Addr(), 2, 20)
	sleeper.Resume(t)
	l.awaitMore(t, 2000)
	await(t, "it finds that its lease is lost", func() bool {
		return strings.Contains(sleeper.Logged(), "the lease is lost")
	})
	l.finish(t)
	asked.finish(t)
	c.verdict(t)
}

// TestProcessReplyInFlightAfterLoss: replies wait in a daemon for a client that does not read.
// Meanwhile their worker id goes to another daemon, which issues. Then the client reads.
func TestProcessReplyInFlightAfterLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	initAlone(t, url)
	c := census{lanes: 1}
	way := redistest.NewProxy(t, server.Addr())
	first := launchLeasing(t, strings.Replace(url, server.Addr(), way.Addr(), 1), alone...)
	first.WaitListening(t)
	conn := dial(t, "tcp", first.Addr())
	lines := 0
	for line := []byte("get" + strings.Repeat(" id", 500) + "\r\n"); ; lines++ { // until nobody takes any more
		conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if n, err := conn.Write(line); n < len(line) {
			if netErr, ok := err.(net.Error); !ok || !netErr.Timeout() {
				t.Fatal(err)
			}
			break
		}
	}
	way.Refuse(true)
	way.Cut()
	second := launchLeasing(t, url, alone...)
	second.WaitListening(t) // when the first one's window is over
	l := c.load(t, second.Addr(), 2, 20)
	l.awaitMore(t, 1000)

	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	r := bufio.NewReaderSize(conn, 64<<10)
	var a answer
	for range lines {
		if err := a.read(r); err != nil || a.strange != "" {
			t.Fatal(err, a.strange)
		}
		if a.refusal != "" {
			c.refused(a.refusal)
		}
		c.add(a.ids)
		a = answer{ids: a.ids[:0]}
	}
	l.awaitMore(t, 1000)
	l.finish(t)
	c.verdict(t)
}

// TestProcessHoldersAreNotRefused: Redis has one fault after another, and no request is refused,
// neither during a fault nor when the windows from before it would have ended. (On a busy machine a fault may last
// for as long as a window: then nothing is shown, and leases are longer.)
func TestProcessHoldersAreNotRefused(t *testing.T) {
	t.Parallel()
	for lease := 6 * time.Second; !holdersServe(t, lease); lease *= 3 {
		if lease > time.Minute {
			t.Fatal("each time a fault lasted for as long as a window")
		}
	}
}

// holdersServe returns false if a fault lasted for too long.
func holdersServe(t *testing.T, lease time.Duration) bool {
	t.Helper()
	server := redistest.Start(t)
	front := redistest.NewProxy(t, server.Addr())
	url := strings.Replace(server.URL(), server.Addr(), front.Addr(), 1)
	var made initialised
	if runLease(t, url, &made, "init", "-how", "new", "-lease", lease.String()); made.Result != redis.Made {
		t.Fatalf("lease init: %s", made.Result)
	}
	c := census{lanes: 1}
	p := launchLeasing(t, url, "-lease", lease.String())
	p.WaitListening(t)
	l := c.load(t, p.Addr(), 2, 3)
	longest := time.Duration(0)
	away := func(d time.Duration, begin, end func()) {
		t.Helper()
		degraded, began := p.came("degraded"), time.Now()
		begin()
		await(t, "it is noticed, and lasts", func() bool { return p.came("degraded") > degraded && time.Since(began) > d })
		serving := p.came("serving")
		end()
		await(t, "it is over", func() bool { return p.came("serving") > serving })
		longest = max(longest, time.Since(began))
	}
	away(lease/2, server.Pause, server.Resume)
	away(0, server.Kill, server.Launch)
	replica := server.Replica()
	away(lease/3, server.Kill, func() {
		replica.Promote()
		front.Retarget(replica.Addr())
		front.Cut()
	})
	replica.Do("FLUSHALL")
	history := redistest.Namespace(t) + ":meta"
	await(t, "the pool is made again", func() bool { return replica.Do("HGET", history, "hist") != nil })
	until := time.Now().Add(lease) // no window that was granted before reaches beyond
	await(t, "all windows are over that were granted before", func() bool { return time.Now().After(until) })
	l.awaitMore(t, 100)
	l.finish(t)
	c.verdict(t)
	if longest > lease*2/3 && (len(c.refusals) > 0 || p.came("exhausted") > 0) {
		t.Logf("refused: %v, with leases of %v and a fault of %v", c.refusals, lease, longest)
		return false
	}
	c.noneRefused(t)
	if held := generator.Katsubushi(); held.Decompose(c.min).Worker != held.Decompose(c.max).Worker {
		t.Error("it has another worker id than it began with")
	}
	for _, state := range []string{"draining", "exhausted"} {
		if p.came(state) > 0 {
			t.Errorf("it was %s", state)
		}
	}
	return true
}
