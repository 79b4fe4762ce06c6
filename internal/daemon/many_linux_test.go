package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
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

// Of many names that are handed over none loses a value. For how long a client of the other daemon got no value is
// logged, the longest time of the 16 groups first; KATSUBUSHI_NAMES measures it with an etcd that syncs its writes:
//
//	KATSUBUSHI_NAMES=10000 go test ./internal/daemon -run TestManyNamesAreHandedOver -v -count 5
func TestManyNamesAreHandedOver(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("KATSUBUSHI_NAMES"))
	var args []string
	if n > 0 {
		args = []string{"--unsafe-no-fsync=false"}
	} else {
		n = 300
	}
	m := etcdtest.Start(t, args...)
	url := etcdtest.URL(t, m)
	store, err := etcd.Open(etcd.Config{URL: url, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	names := make([]string, n)
	probes := map[int]string{} // a name of each group
	inParallel(n, func(i int) {
		names[i] = fmt.Sprintf("name%05d", i)
		d := counter.Sequence(names[i])
		d.Strict = true
		if _, err := store.Define(context.Background(), d); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		probes[leader.GroupOf(name)] = name
	}
	fleet := func(c *Config) { c.Counters.URL, c.MaxWait = url, time.Minute }
	first, at := run(t, fleet)
	await(t, "it leads", func() bool { return first.texts("generators")["leader_groups"] == "16" })
	inParallel(n, func(i int) { value(t, at, names[i]) })
	second, there := run(t, fleet)
	runner := first.sequences.election.runner.Load()
	await(t, "the other one is known", func() bool { return len(runner.View().Nodes) == 2 })

	var clients sync.WaitGroup
	var stop atomic.Bool
	gaps := make([]time.Duration, leader.Groups)
	for g, name := range probes {
		clients.Go(func() { gaps[g] = probe(t, there, name, &stop) })
	}
	began := time.Now()
	if err := first.demote(context.Background(), leader.All); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	await(t, "the second one leads", func() bool { return second.texts("generators")["leader_groups"] == "16" })
	records, err := store.List(context.Background())
	if err != nil || len(records) != n {
		t.Fatal(len(records), err)
	}
	for _, r := range records {
		if r.Next != 2 && probes[leader.GroupOf(r.Name)] != r.Name {
			t.Errorf("%s: the next value is %d, and 1 was issued", r.Name, r.Next)
		}
	}
	stop.Store(true)
	clients.Wait()
	longest := time.Duration(0)
	for _, gap := range gaps {
		longest = max(longest, gap)
	}
	t.Logf("%d names: %v without a value at most, of a demotion of %v; by group %v",
		n, longest.Round(time.Millisecond), took.Round(time.Millisecond), gaps)
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

// value gets one value.
func value(t *testing.T, address, name string) {
	c := dial(t, address)
	defer c.Close()
	io.WriteString(c, "get "+name+"\r\n")
	want := "VALUE " + name + " 0 1\r\n1\r\nEND\r\n"
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
