package main

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// Two daemons share a sequence. One is killed again and again under load; no value comes twice.
func TestProcessSequenceInEtcd(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	counters := []string{"-counters", etcdtest.URL(t, m)}
	const batch = 40
	declared := append([]string{"-worker-id", "1", "-max-wait", "20s", "-generator", "orders sequence batch=40"},
		counters...)
	learned := append([]string{"-worker-id", "2", "-max-wait", "20s"}, counters...)
	steady := start(t, declared...)

	var mu sync.Mutex
	seen, largest := map[uint64]bool{}, uint64(0)
	ask := func(p *process, n int) {
		c := countFrom(t, p)
		for range n {
			v := c.must(t, "orders")
			mu.Lock()
			if seen[v] {
				t.Errorf("%d was issued twice", v)
			}
			seen[v], largest = true, max(largest, v)
			mu.Unlock()
		}
	}
	for range 4 {
		killed := start(t, learned...) // it knows the name from etcd
		var wg sync.WaitGroup
		wg.Go(func() { ask(steady, 300) })
		ask(killed, 300)
		killed.end(t, syscall.SIGKILL)
		wg.Wait()
	}
	if largest > 8*300+4*2*batch+2*batch {
		t.Errorf("%d values, and the largest is %d: a kill loses more than two blocks", len(seen), largest)
	}

	other := start(t, learned...)
	ask(other, 10)
	ask(steady, 1)
	other.end(t, syscall.SIGTERM)
	ask(steady, 10)
	steady.end(t, syscall.SIGTERM)
	last := largest
	for range 3 { // alone, and so without a gap
		p := start(t, learned...)
		c := countFrom(t, p)
		v := c.must(t, "orders")
		if v <= last || v > last+2*batch || last != largest && v != last+1 {
			t.Errorf("%d after %d", v, last)
		}
		last = v
		p.end(t, syscall.SIGTERM)
	}

	p := start(t, learned...)
	if code, _, stderr := runName("",
		append([]string{"raise", "orders", "1000000"}, counters...)...); !raised(code, stderr) {
		t.Fatal(stderr)
	}
	c := countFrom(t, p)
	await(t, "the daemon has learned of the raise", func() bool { return c.must(t, "orders") >= 1000000 })
	if code, _, stderr := runName("",
		append([]string{"create", "items sequence start=7"}, counters...)...); code != exitOK {
		t.Fatal(stderr)
	}
	await(t, "the daemon has learned of the name", func() bool { return c.must(t, "items") < 1000 })
}

// While etcd is away a daemon starts and serves its other kinds. While it runs it has the blocks at hand.
func TestProcessEtcdAway(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	counters := []string{"-counters", etcdtest.URL(t, m)}
	if code, _, stderr := runName("",
		append([]string{"create", "items sequence start=7"}, counters...)...); code != exitOK {
		t.Fatal(stderr)
	}
	m.Kill()
	p, c := startWithoutCounters(t, counters)
	m.Launch()
	served := func(key string) (v uint64) {
		await(t, key+" is served", func() bool {
			var says string
			v, says = c.get(t, key)
			return says == ""
		})
		return v
	}
	if v := served("orders"); v > 3*40 {
		t.Errorf("orders begins with %d", v)
	}
	if v := served("items"); v != 7 {
		t.Errorf("items begins with %d", v)
	}

	last := served("orders")
	m.Pause()
	n, says := 0, ""
	for ; says == ""; n++ {
		var v uint64
		if v, says = c.get(t, "orders"); says == "" && v <= last {
			t.Fatalf("%d after %d", v, last)
		} else if says == "" {
			last = v
		}
	}
	if n < 10 || n > 3*40 || !strings.Contains(says, "no block for ") {
		t.Errorf("after %d values: %q", n, says)
	}
	c.must(t, "id")
	m.Resume()
	if v := served("orders"); v <= last {
		t.Errorf("%d after %d", v, last)
	}
	began := time.Now()
	p.end(t, syscall.SIGTERM)
	t.Logf("stopped after %v", time.Since(began))
}
