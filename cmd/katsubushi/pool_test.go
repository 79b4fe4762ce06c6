package main

import (
	"slices"
	"strings"
	"testing"
)

// A shortPool is one whose leases end soon, so that tests need not wait for minutes.
var shortPool = []string{"-lease", "6s", "-heartbeat", "500ms", "-max-skew", "200ms", "-min-worker-id", "1",
	"-max-worker-id", "5"}

// A poolOf is a pool in a store, and the flags with which it is used.
type poolOf struct{ flags []string }

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

func (p poolOf) init(t *testing.T) {
	t.Helper()
	p.says(t, "made: its worker ids can be had\n", "init", "-how", "new")
}

func (p poolOf) launch(t *testing.T, more ...string) *process {
	t.Helper()
	return launch(t, slices.Concat(p.flags, more)...)
}

// redisPool makes a pool in Redis, with short leases unless flags say something else.
func redisPool(t *testing.T, url string, flags ...string) poolOf {
	t.Helper()
	p := poolOf{slices.Concat([]string{"-redis", url}, shortPool, flags)}
	p.init(t)
	return p
}
