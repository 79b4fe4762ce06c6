package main

import (
	"sync"
	"syscall"
	"testing"

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
