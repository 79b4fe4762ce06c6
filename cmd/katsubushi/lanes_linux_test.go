package main

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A daemon that may not have a worker id says why, without the password, tries again and says nothing more, and comes
// up by itself once it may.
func TestProcessWaitsUntilItMayLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	pool := redisPool(t, url)
	server.Do("ACL", "SETUSER", "ids", "on", ">old", "~*", "+@all")
	port := freePort(t)
	p := pool.launch(t, "-redis", strings.Replace(url, "//", "//ids:hush@", 1), "-http-port", port)
	awaitReadyz(t, port, 503, "no worker id yet", server.Addr()+": WRONGPASS ")
	await(t, "it tries again", func() bool { return leaseStats(t, port)["lease_acquisitions_failed"].(float64) >= 4 })
	p.Says(t, `"msg":"lease"`)
	if n := strings.Count(p.Logged(), `"msg":"lease"`); n != 1 {
		t.Errorf("it has said so %d times", n)
	}
	if _, _, stats := httpGet(port, "/stats"); strings.Contains(stats+p.Logged(), "hush") {
		t.Error("the password is shown")
	}
	server.Do("ACL", "SETUSER", "ids", ">hush")
	p.WaitListening(t)
	awaitReadyz(t, port, 200, "ready", "")
}
