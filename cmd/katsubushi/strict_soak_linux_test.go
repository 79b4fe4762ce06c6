package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// These print figures for the bars that only a machine without other load can tell. What they check holds on any.

// soakOnly skips a test that takes minutes, or measures, unless it is asked for. TestSoakRunsWhatOnlyItRuns looks for
// calls of it.
func soakOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("KATSUBUSHI_SOAK") != "1" {
		t.Skip("KATSUBUSHI_SOAK=1 runs it")
	}
}

// A measure is what clients saw for a while.
type measure struct {
	answers, refused int
	times            []time.Duration // of requests, sorted
	lasted           time.Duration
}

func (m measure) at(share float64) time.Duration {
	return m.times[min(int(float64(len(m.times))*share), len(m.times)-1)]
}

func (m measure) String() string {
	return fmt.Sprintf("%7.0f/s, p50 %v, p99 %v, %d refused", float64(m.answers)/m.lasted.Seconds(),
		m.at(0.5).Round(time.Microsecond), m.at(0.99).Round(time.Microsecond), m.refused)
}

// ask sends a request again and again over some connections, each after the answer to the one before and a
// pause, until the time is up or over is closed.
func ask(t *testing.T, address, request string, connections int, pause, lasts time.Duration) (m measure) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range connections {
		all.Go(func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			var times []time.Duration
			refused := 0
			for time.Since(began) < lasts {
				sent := time.Now()
				fmt.Fprint(c, request)
				for line := ""; line != "END\r\n"; {
					if line, err = r.ReadString('\n'); err != nil {
						t.Error(err)
						return
					}
					if strings.Contains(line, "ERROR") {
						refused++
						break
					}
				}
				times = append(times, time.Since(sent))
				time.Sleep(pause - time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			m.answers, m.refused, m.times = m.answers+len(times)-refused, m.refused+refused, append(m.times, times...)
		})
	}
	all.Wait()
	m.lasted = time.Since(began)
	slices.Sort(m.times)
	return m
}

// 64 connections with memcached's protocol, to the leader and through a follower, in turns.
func TestStrictThroughAFollower(t *testing.T) {
	soakOnly(t)
	f := startFleet(t, 1, 2)
	f.ask(1, 0)
	f.served("at first")
	close(f.over)
	f.clients.Wait()
	for _, name := range []string{"orders", timestamps} {
		leads := f.leaderOf(name)
		if leads == nil {
			t.Fatal("nobody leads")
		}
		follows := f.daemons[(slices.Index(f.daemons, leads)+1)%2]
		for range 5 {
			direct := ask(t, leads.address(), "get "+name+"\r\n", 64, 0, 3*time.Second)
			through := ask(t, follows.address(), "get "+name+"\r\n", 64, 0, 3*time.Second)
			t.Logf("%s, leader   %v", name, direct)
			t.Logf("%s, follower %v; p50 is %.2f times the leader's, p99 %.2f times", name, through,
				float64(through.at(0.5))/float64(direct.at(0.5)), float64(through.at(0.99))/float64(direct.at(0.99)))
			if direct.refused+through.refused > 0 {
				t.Error("somebody was refused")
			}
		}
	}
}

// Each call of etcd takes 200 ms, and clients take 50,000 values a second: none is refused, and those who ask for
// ids do not notice.
func TestASlowStoreUnderLoad(t *testing.T) {
	soakOnly(t)
	door := redistest.NewProxy(t, etcdtest.Start(t).Addr())
	p := start(t, "-worker-id", "1", "-generator", "orders sequence", "-counters", "etcd://"+door.Addr()+"?ns=slow")
	get := "get" + strings.Repeat(" orders", 50) + "\r\n"
	load := func(lasts time.Duration) measure { return ask(t, p.Addr(), get, 12, 10*time.Millisecond, lasts) }
	ids := func(what string, lasts time.Duration) {
		t.Helper()
		var m measure
		var both sync.WaitGroup
		both.Go(func() { m = load(lasts) })
		other := ask(t, p.Addr(), "get id\r\n", 4, time.Millisecond, lasts)
		both.Wait()
		t.Logf("%s: gets of 50 values %v", what, m)
		t.Logf("%s: get id            %v", what, other)
		if m.refused+other.refused > 0 {
			t.Error("somebody was refused")
		}
	}
	load(20 * time.Second)
	for range 2 {
		ids("etcd answers at once    ", 15*time.Second)
		door.DelayAnswers(200 * time.Millisecond)
		ids("etcd answers in 200 ms  ", 15*time.Second)
		door.DelayAnswers(0)
	}
}
