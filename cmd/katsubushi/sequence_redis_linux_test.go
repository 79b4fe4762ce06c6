package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// A sequence in Redis: only an operator makes its record, and the password is told nowhere.
func TestProcessSequenceInRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("ACL", "SETUSER", "counting", "on", ">hush", "~shop:*", "+evalsha", "+eval", "+info", "+time", "+wait", "+hget",
		"+hset", "+hsetnx", "+hmget", "+hgetall",
		"+client|id", "+hello", "+select", "+config|get")
	password := tempfile.Write(t, "password", "hush\n")
	flags := []string{"-counters", "redis://counting@" + s.Addr() + "/0?ns=shop", "-counters-password-file", password}
	generator := func(want int, contains string, args ...string) {
		t.Helper()
		code, out, errs, _ := patiently(variables{}, append(append([]string{"name"}, args...), flags...)...)
		if all := out + errs; code != want || !strings.Contains(all, contains) ||
			strings.Contains(all, "hush") {
			t.Fatalf("%v: %d, %s", args, code, all)
		}
	}
	daemon := func(begin func(*testing.T, ...string) *process) *process {
		return begin(t,
			append([]string{"-worker-id", "1", "-max-wait", "1m", "-generator", "orders sequence start=1 rate=100"},
				flags...)...)
	}
	p := daemon(launch)
	<-p.Ended()
	if log := p.Logged(); !strings.Contains(log, "katsubushi name create") || strings.Contains(log, "hush") {
		t.Errorf("in an empty namespace: %s", log)
	}
	generator(exitOK, "orders  1", "create", "orders sequence rate=100")
	generator(exitOK, "not promised: no replica is connected", "create", "orders sequence rate=100")
	generator(exitUsage, "is not what is recorded", "create", "orders sequence rate=101")

	p = daemon(start)
	c := countFrom(t, p)
	for want := range uint64(3) {
		if v := c.must(t, "orders"); v != want+1 {
			t.Fatalf("%d; want %d", v, want+1)
		}
	}
	p.end(t, syscall.SIGTERM)
	if strings.Contains(p.Logged(), "hush") {
		t.Error("the log tells the password")
	}
	generator(exitOK, "orders  4", "show", "orders") // a clean stop leaves no gap
}
