package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// Of many names that are handed over, by a demotion and at a clean stop, none loses a value. For how long a client of
// the other daemon got no value is logged, the longest time of the 16 groups first; KATSUBUSHI_NAMES measures it with
// an etcd that syncs its writes:
//
//	KATSUBUSHI_NAMES=10000 go test ./internal/daemon -run TestManyNamesAreHandedOver -v -count 5
func TestManyNamesAreHandedOver(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("KATSUBUSHI_NAMES"))
	var args []string
	if n > 0 {
		args = []string{"--unsafe-no-fsync=false"}
	} else {
		n = 100 // the race detector needs its time; make test has 1,000 without it
	}
	m := etcdtest.Start(t, args...)
	url := etcdtest.URL(t, m)
	store, err := etcd.Open(etcd.Config{URL: url, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	names := make([]string, n)
	inParallel(n, func(i int) {
		names[i] = fmt.Sprintf("name%05d", i)
		d := counter.Sequence(names[i])
		d.Strict = true
		if _, err := store.Define(context.Background(), d); err != nil {
			t.Error(err)
		}
	})
	probes := map[int]string{} // a name of each group, the last one
	for _, name := range names {
		probes[leader.GroupOf(name)] = name
	}
	others := slices.DeleteFunc(names, func(name string) bool { return probes[leader.GroupOf(name)] == name })
	issued := func(at string, want uint64) {
		t.Helper()
		inParallel(len(others), func(i int) { value(t, at, others[i], want) })
	}
	given := func(want uint64) { // every name has its rest back
		t.Helper()
		records, err := store.List(context.Background())
		if err != nil || len(records) != n {
			t.Fatal(len(records), err)
		}
		for _, r := range records {
			if r.Next != want && probes[leader.GroupOf(r.Name)] != r.Name {
				t.Errorf("%s: the next value is %d, want %d", r.Name, r.Next, want)
			}
		}
	}
	fleet := func(c *Config) { c.Counters.URL, c.MaxWait = url, time.Minute }
	first, at := run(t, fleet)
	leads := func(d *Daemon) func() bool {
		return func() bool { return d.texts("generators")["leader_groups"] == "16" }
	}
	await(t, "it leads", leads(first))
	issued(at, 1)
	ask := func(at string) (end func(what string)) {
		var clients sync.WaitGroup
		var stop atomic.Bool
		gaps := make([]time.Duration, leader.Groups)
		for g, name := range probes {
			clients.Go(func() { gaps[g] = probe(t, at, name, &stop) })
		}
		began := time.Now()
		return func(what string) {
			took := time.Since(began).Round(time.Millisecond)
			stop.Store(true)
			clients.Wait()
			t.Logf("%d names: %v without a value at most, of a %s of %v; by group %v", n, slices.Max(gaps), what, took, gaps)
		}
	}
	var end func(string)
	t.Run("second", func(t *testing.T) { // the second daemon stops with it
		second, there := run(t, fleet)
		runner := runnerOf(first).Load()
		await(t, "the other one is known", func() bool { return len(runner.View().Nodes) == 2 })
		end = ask(there)
		if err := first.demote(context.Background(), leader.All); err != nil {
			t.Error(err)
		}
		await(t, "the second one leads", leads(second))
		end("demotion")
		given(2)
		issued(there, 2)
		end = ask(at)
	})
	await(t, "the first one leads again", leads(first))
	end("clean stop")
	given(3)
}

// inParallel calls f with 0 to n-1.
func inParallel(n int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
}

// value gets the next value.
func value(t *testing.T, address, name string, next uint64) {
	c := dial(t, address)
	defer c.Close()
	io.WriteString(c, "get "+name+"\r\n")
	want := fmt.Sprintf("VALUE %s 0 1\r\n%d\r\nEND\r\n", name, next)
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Errorf("%q, %v", b, err)
	}
}

// probe asks for values until stop, and returns the longest time between two of them.
func probe(t *testing.T, address, name string, stop *atomic.Bool) (longest time.Duration) {
	c := dial(t, address)
	r := bufio.NewReader(c)
	for last := time.Now(); !stop.Load(); time.Sleep(2 * time.Millisecond) {
		io.WriteString(c, "get "+name+"\r\n")
		for line := ""; line != "END\r\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil || line[0] == 'S' {
				t.Errorf("%q, %v", line, err)
				return 0
			}
		}
		longest, last = max(longest, time.Since(last)), time.Now()
	}
	return longest.Round(time.Millisecond)
}
