package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A change is a log line about lane 0.
type change struct {
	State  string `json:"state"`
	Was    string `json:"was"` // empty: it is in the state that it was in, for another reason
	Worker *int   `json:"worker_id"`
	Reason string `json:"reason"`
}

func (c change) String() string {
	worker := "-"
	if c.Worker != nil {
		worker = fmt.Sprint(*c.Worker)
	}
	return strings.TrimSpace(fmt.Sprintf("%s < %s, worker %s, %s", c.State, c.Was, worker, c.Reason))
}

// changes returns the log lines about lane 0 so far, and checks that there is exactly one for each
// change of state.
func (p *process) changes(t *testing.T) []change {
	t.Helper()
	var list []change
	state, told := "acquiring", map[string]bool{}
	for s := bufio.NewScanner(strings.NewReader(p.Logged())); s.Scan(); {
		line := struct {
			Msg  string `json:"msg"`
			Lane *int   `json:"lane"`
			change
		}{}
		if json.Unmarshal(s.Bytes(), &line) != nil || line.Msg != "lease" || line.Lane == nil || *line.Lane != 0 {
			continue
		}
		c := line.change
		kind := strings.Trim(c.Reason, "0123456789") // some tell a time, which is not news
		switch {
		case c.Was != "" && (c.Was != state || c.State == state), c.Was == "" && c.State != state:
			t.Errorf("it was %s, and the log goes on with: %v", state, c)
		case c.Was == "" && told[kind]:
			t.Errorf("told twice: %v", c)
		case c.Was != "" || c.Reason == "":
			clear(told)
		}
		state, told[kind] = c.State, true
		list = append(list, c)
	}
	return list
}

// went waits until the log shows these changes of lane 0, with any other changes in between: a busy
// machine causes flaps of its own. Each of want is the beginning of a change, then optionally * and
// a part of its reason.
func (p *process) went(t *testing.T, want ...string) {
	t.Helper()
	await(t, fmt.Sprintf("lane 0 changes like this: %q", want), func() bool {
		rest := want
		for _, c := range p.changes(t) {
			begin, contains, _ := strings.Cut(rest[0], "*")
			if strings.HasPrefix(c.String(), begin) && strings.Contains(c.Reason, contains) {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return true
			}
		}
		return false
	})
}

// httpGet asks a port of loopback, or a host and port, that may not be there yet: then the status is 0.
func httpGet(port, path string) (status int, header http.Header, body string) {
	if !strings.Contains(port, ":") {
		port = "127.0.0.1:" + port
	}
	resp, err := http.Get("http://" + port + path)
	if err != nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

// awaitReadyz waits until /readyz says this. Its lines about lanes come after the sentence that
// clients get.
func awaitReadyz(t *testing.T, port string, status int, sentence, lanes string) {
	t.Helper()
	await(t, fmt.Sprintf("/readyz is %d %q %q", status, sentence, lanes), func() bool {
		s, header, body := httpGet(port, "/readyz")
		first, below, _ := strings.Cut(body, "\n")
		if s == http.StatusServiceUnavailable && header.Get("Retry-After") != "1" {
			t.Fatalf("Retry-After: %q", header.Get("Retry-After"))
		}
		return s == status && strings.HasPrefix(first, sentence) && strings.Contains(below, lanes)
	})
}

// leaseStats holds values of /stats.
func leaseStats(t *testing.T, port string) map[string]any {
	t.Helper()
	_, _, body := httpGet(port, "/stats")
	var m map[string]any
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m
}

// TestProcessWalksThroughTheStates takes two daemons through the states of a lane, but waiting,
// over a real Redis: each change is one line of the log, and /readyz, the statistics and clients
// are told what it is about.
func TestProcessWalksThroughTheStates(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url, port, port2 := server.URL(), freePort(t), freePort(t)
	longer := []string{"-max-worker-id", "2", "-lease", "12s"} // or a busy machine may have no time to look at "degraded"
	server.Kill()
	p := launchLeasing(t, url, append(longer, "-http-port", port)...)
	awaitReadyz(t, port, 503, "no worker id yet", ": redis: dial tcp "+server.Addr()+": connect: connection refused")
	server.Launch()
	namespace := url[strings.Index(url, "ns=")+3:]
	awaitReadyz(t, port, 503, "no worker id yet",
		"`katsubushi lease init` does it (-how new, if there never was one), with this daemon's flags; it was looked for at "+
			server.Addr()+" as ns="+namespace)
	if s := leaseStats(t, port); s["ready"] != false || s["lane_0_state"] != "acquiring" || s["lane_0_worker_id"] != nil ||
		s["lease_redis_addr"] != nil {
		t.Errorf("stats before there is a worker id: %v", s)
	}
	runLease(t, url, &initialised{}, append([]string{"init", "-how", "new"}, longer...)...)
	p.WaitListening(t)
	awaitReadyz(t, port, 200, "ready", "")
	c := census{lanes: 1}
	c.add(hurry(t, p, 1000))

	// An operator ends its lease. It goes on issuing and gets the other worker id. The first one is
	// free when its window is over.
	runLease(t, url, &struct{}{}, slices.Concat([]string{"release"}, longer, []string{"1"})...)
	await(t, "it has the other worker id", func() bool { return leaseStats(t, port)["lane_0_worker_id"] == 2.0 })
	q := launchLeasing(t, url, append(longer, "-http-port", port2)...)
	awaitReadyz(t, port2, 503, "no worker id yet", "no worker id is free")
	var s map[string]any
	await(t, "it serves", func() bool { // a busy machine may be late with an extension
		s = leaseStats(t, port)
		return s["lane_0_state"] == "serving"
	})
	if s["lease_acquisitions_ok"] != 2.0 || s["lease_extensions_lost"] != 1.0 ||
		s["lease_redis_addr"] != server.Addr() || s["lease_redis_replicas"] != 0.0 || s["lease_redis_history"] == "" {
		t.Errorf("stats: %v", s)
	}
	c.add(hurry(t, p, 1000))

	// Redis is paused for longer than a window.
	server.Pause()
	await(t, "it notices", func() bool { return leaseStats(t, port)["lane_0_state"] == "degraded" })
	awaitReadyz(t, port, 200, "ready", "lane 0: degraded for ")
	c.add(hurry(t, p, 1000)) // not refused: the window is still its own
	awaitReadyz(t, port, 503, "lease expired ", "lane 0: exhausted for ")
	conn := dial(t, "tcp", p.Addr())
	fmt.Fprintf(conn, "get id\r\n")
	if answer, _ := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(answer, "SERVER_ERROR lease expired ") {
		t.Errorf("after the end of the window: %q", answer)
	}
	_, _, exposed := httpGet(port, "/metrics")
	for _, line := range []string{
		`katsubushi_lane_state{lane="0",pool="redis:/0/` + namespace + `",state="exhausted",worker_id="2"} 1`,
		`katsubushi_window_left_seconds{lane="0",worker_id="2"} -`,
		`katsubushi_lease_extensions_total{outcome="unanswered"} `,
		`katsubushi_lease_redis_info{address="` + server.Addr() + `"`,
	} {
		if !strings.Contains(exposed, "\n"+line) {
			t.Errorf("/metrics does not say %s", line)
		}
	}
	server.Resume()
	awaitReadyz(t, port, 200, "ready", "")
	awaitReadyz(t, port2, 200, "ready", "")
	q.WaitListening(t)
	c.add(hurry(t, p, 1000))
	c.add(hurry(t, q, 1000))
	p.end(t, syscall.SIGTERM)
	c.verdict(t)
	// "* ": some reason, but which depends on what the daemon waits for: a connection, this answer or an earlier one
	p.went(t, "acquiring < , worker -, *connection refused", "acquiring < , worker -, *lease init",
		"serving < acquiring, worker 1,",
		"draining < serving, worker 1, *the lease is lost", "serving < draining, worker 2,",
		"degraded < serving, worker 2, * ",
		"exhausted < degraded, worker 2, * ", "serving < exhausted, worker 2,",
		"sealed < ") // a busy machine may be degraded again
	q.went(t, "acquiring < , worker -, *no worker id is free", "serving < acquiring, worker 1,")
	if p.Entry("the port stays closed until ids can be issued") == nil {
		t.Error("the log does not say that the port is closed")
	}
}
