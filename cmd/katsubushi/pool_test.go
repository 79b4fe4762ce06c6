package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A shortPool is one whose leases end soon, so that tests need not wait for minutes.
var shortPool = []string{"-lease", "6s", "-heartbeat", "500ms", "-max-skew", "200ms", "-min-worker-id", "1",
	"-max-worker-id", "5"}

// A poolOf is a pool in a store, and the flags with which it is used.
type poolOf struct{ flags []string }

// lease runs `katsubushi lease`.
func (p poolOf) lease(args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = p.leasePatiently(args...)
	return code, stdout, stderr
}

func (p poolOf) leasePatiently(args ...string) (code int, stdout, stderr string, again bool) {
	return patiently(environment(), slices.Concat([]string{"lease", args[0]}, p.flags, args[1:])...)
}

// says runs `katsubushi lease`, which must succeed and say this.
func (p poolOf) says(t *testing.T, want string, args ...string) {
	t.Helper()
	code, stdout, stderr, again := p.leasePatiently(args...)
	if code != exitOK || !strings.Contains(stdout, want) && !(again && strings.Contains(stdout, " already: ")) {
		t.Fatalf("lease %q: exit code %d: %s%s", args, code, stdout, stderr)
	}
}

// told is says for what is so at times. One space stands for any.
func (p poolOf) told(t *testing.T, text string, args ...string) bool {
	t.Helper()
	code, stdout, stderr := p.lease(args...)
	if code != exitOK {
		t.Fatalf("lease %q: exit code %d: %s%s", args, code, stdout, stderr)
	}
	return strings.Contains(strings.Join(strings.Fields(stdout), " "), text)
}

func (p poolOf) init(t *testing.T) {
	t.Helper()
	p.says(t, "made: its worker ids can be had\n", "init", "-how", "new")
}

func (p poolOf) list(t *testing.T) (list []workerid.Lease) {
	t.Helper()
	code, stdout, stderr := p.lease("list", "-all", "-json")
	if err := json.Unmarshal([]byte(stdout), &list); code != exitOK || err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	return list
}

func (p poolOf) launch(t *testing.T, more ...string) *process {
	t.Helper()
	return launch(t, slices.Concat(p.flags, more)...)
}

func (p poolOf) start(t *testing.T, more ...string) *process {
	t.Helper()
	d := p.launch(t, more...)
	await(t, "the daemon listens", func() bool { return d.Entry("listening") != nil || d.HasEnded() })
	d.WaitListening(t)
	return d
}

// redisPool makes a pool in Redis, with short leases unless flags say something else.
func redisPool(t *testing.T, url string, flags ...string) poolOf {
	t.Helper()
	p := poolOf{slices.Concat([]string{"-redis", url}, shortPool, flags)}
	p.init(t)
	return p
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
