package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// A shortLease is the shortest that the default skew allows, so that tests need not wait for minutes.
var shortLease = []string{"-max-skew", "200ms", "-lease", "6s", "-min-worker-id", "1", "-max-worker-id", "5"}

// runLease runs `katsubushi lease` on a pool, as -json prints it.
func runLease(t *testing.T, url string, result any, args ...string) {
	t.Helper()
	args = append(append([]string{"lease", args[0], "-json", "-redis", url}, shortLease...), args[1:]...)
	code, stdout, stderr, _ := patiently(environment(), args...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), result); err != nil {
		t.Fatalf("%s: %v", stdout, err)
	}
}

func initPool(t *testing.T, url string) {
	t.Helper()
	var made initialised
	if runLease(t, url, &made, "init", "-how", "new"); made.Result != redis.Made {
		t.Fatalf("lease init: %s", made.Result)
	}
}

func launchLeasing(t *testing.T, url string, more ...string) *process {
	t.Helper()
	return launch(t, append(append([]string{"-redis", url}, shortLease...), more...)...)
}

// workerOf is the worker id of a daemon's next id.
func workerOf(t *testing.T, p *process) uint64 {
	t.Helper()
	return generator.Katsubushi().Decompose(hurry(t, p, 1)[0]).Worker
}

// states returns the state that each lane of a daemon has by its log.
func (p *process) states() map[float64]string {
	last := map[float64]string{}
	for line := range strings.Lines(p.Logged()) {
		var e struct {
			Msg, State string
			Lane       float64
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "lease" {
			last[e.Lane] = e.State
		}
	}
	return last
}

// serve reports whether so many lanes of the daemon serve.
func (p *process) serve(lanes int) bool {
	n := 0
	for _, state := range p.states() {
		if state == workerid.Serving.String() {
			n++
		}
	}
	return n == lanes
}

func TestProcessLeasesFromRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	httpPort := freePort(t)
	first := launchLeasing(t, url, "-http-port", httpPort)
	// It says what is missing, is un-ready, and goes on by itself.
	await(t, "it says how to make the pool", func() bool { return strings.Contains(first.Logged(), "lease init") })
	await(t, "HTTP answers", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + httpPort + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	for _, c := range []struct {
		args []string
		want int
	}{{[]string{"-http-port", httpPort}, exitOK}, {[]string{"-http-port", httpPort, "-ready"}, exitFailure},
		{nil, exitFailure}} {
		checkHealth(t, c.want, append([]string{"-bind", "127.0.0.1", "-port", "1"}, c.args...)...) // the port is closed
	}
	initPool(t, url)
	first.WaitListening(t)
	if w := workerOf(t, first); w != 1 {
		t.Errorf("the first daemon has worker id %d", w)
	}
	second := launchLeasing(t, url, "-lanes", "2")
	second.WaitListening(t)
	await(t, "both lanes of the second serve", func() bool { return second.serve(2) })

	var list []workerid.Lease
	runLease(t, url, &list, "list", "-all")
	held := 0
	for _, l := range list {
		if l.Using {
			held++
		}
	}
	if len(list) != 5 || held != 3 {
		t.Errorf("lease list: %+v", list)
	}
	if runLease(t, url, &list, "list"); len(list) != 3 {
		t.Errorf("lease list shows what nobody has, or not all that somebody has: %+v", list)
	}
	namespace := url[strings.Index(url, "ns=")+3:]
	if members := fmt.Sprint(server.Do("ZRANGE", namespace+":ids", "0", "-1")); !strings.HasPrefix(members, "[A4 A5 ") {
		t.Errorf("those that expired least recently come first: %s", members) // who holds the others has extended some
	}

	// What is given back can be had at once.
	first.end(t, syscall.SIGTERM)
	third := launchLeasing(t, url, "-lanes", "3")
	third.WaitListening(t)
	await(t, "all lanes of the third serve", func() bool { return third.serve(3) })
	var stats redis.Stats
	if runLease(t, url, &stats, "stats"); stats.Held != 5 || stats.GetIDSuccess != 6 {
		t.Errorf("lease stats: %+v", stats)
	}
}

// TestProcessKilledHolderAndSuccessor is what gave 144,577 duplicates with yaraus around kayac's
// daemon: whatever holds the lease is killed, and somebody else gets its worker id.
func TestProcessKilledHolderAndSuccessor(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	initPool(t, url)
	c := census{lanes: 1}
	for range 3 {
		// Four other daemons, so that there is one worker id to be had: the killed one's.
		var others []*process
		for range 4 {
			o := launchLeasing(t, url)
			o.WaitListening(t)
			others = append(others, o)
		}
		p := launchLeasing(t, url)
		p.WaitListening(t)
		for _, d := range append(others, p) {
			c.add(hurry(t, d, 200_000))
		}
		for _, d := range append(others, p) {
			d.Process.Kill()
		}
	}
	c.verdict(t)
}

func TestLeaseWithNumbers(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	initPool(t, url)
	for _, n := range []int{2, -1} {
		var r redis.Replicas
		if runLease(t, url, &r, "replicas", strconv.Itoa(n)); r.Needed != n || r.Connected == nil {
			t.Errorf("lease replicas %d: %+v", n, r)
		}
	}
	code, stdout, stderr, _ := patiently(environment(), "lease", "release", "-redis", url, "5")
	if code != exitOK || stdout != "free already: nobody has it\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"lease", "release", "-redis", url, "1024"},
		{"lease", "release", "1024", "-redis", url}} {
		code, _, stderr, _ := patiently(environment(), args...)
		if code != exitFailure || !strings.Contains(stderr, "the pool has no worker id 1024") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}
