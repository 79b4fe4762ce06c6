package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A daemon that may not have a worker id says why, tries again and says nothing more, and comes up
// by itself once it may.
func TestProcessWaitsUntilItMayLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	initPool(t, url)
	server.Do("ACL", "SETUSER", "ids", "on", ">old", "~*", "+@all")
	as := func(user string) string { return strings.Replace(url, "//", "//"+user+"@", 1) }
	fingerprint := func(lease string) string { return ";lease=" + lease + "ms;ids=1-5" }
	for _, c := range []struct {
		name, url string
		ahead     time.Duration // of the daemon's clock
		more      []string
		why       []string                     // what it says
		mend      func(*testing.T, *process)   // nil: it is never right
		check     func(s map[string]any) error // of the statistics while it waits
	}{
		{name: "wrong password", url: as("ids:new"), why: []string{server.Addr() + ": WRONGPASS "},
			mend: func(*testing.T, *process) { server.Do("ACL", "SETUSER", "ids", ">new") }},
		{name: "other settings", url: url, more: []string{"-lease", "7s"},
			why: []string{"the worker ids belong to daemons with other settings", fingerprint("6000"), fingerprint("7000")}},
		{name: "wrong clock", url: url, ahead: time.Minute,
			why:  []string{"this host's clock and the store's differ too much: Redis's is ", " behind"},
			mend: func(t *testing.T, p *process) { p.step(t, -time.Minute) },
			check: func(s map[string]any) error {
				if ms, _ := s["lease_redis_clock_ahead_ms"].(float64); ms > -59_000 || ms < -61_000 {
					return fmt.Errorf("Redis's clock is %v ms ahead", s["lease_redis_clock_ahead_ms"])
				}
				return nil
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			p := launchShifted(t, c.ahead,
				append(append([]string{"-redis", c.url, "-http-port", port}, shortLease...), c.more...)...)
			for _, why := range c.why {
				awaitReadyz(t, port, 503, "no worker id yet", why)
			}
			await(t, "it tries again", func() bool { return leaseStats(t, port)["lease_acquisitions_failed"].(float64) >= 4 })
			await(t, "the log says why", func() bool { return len(p.changes(t)) > 0 })
			if list := p.changes(t); len(list) != 1 {
				t.Errorf("it should have said so once: %v", list)
			}
			if c.check != nil {
				if err := c.check(leaseStats(t, port)); err != nil {
					t.Error(err)
				}
			}
			if _, _, stats := httpGet(port, "/stats"); strings.Contains(stats+p.Logged(), "ids:new") ||
				bytes.Contains([]byte(stats), []byte(":new@")) {
				t.Error("the password is shown")
			}
			if c.mend == nil {
				return
			}
			c.mend(t, p)
			p.WaitListening(t)
			awaitReadyz(t, port, 200, "ready", "")
		})
	}
}
