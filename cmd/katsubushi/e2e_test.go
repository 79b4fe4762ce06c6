package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

func procKB(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err)
	}
	m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no %s in %s", field, status)
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kb
}

// firstDuplicate sorts ids and returns one that occurs twice.
func firstDuplicate(ids []uint64) (uint64, bool) {
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			return ids[i], true
		}
	}
	return 0, false
}

// TestProcessMillionIDs: 16 gomemcache clients of one connection each fetch a million ids, one by
// one and a hundred at a time.
func TestProcessMillionIDs(t *testing.T) {
	t.Parallel()
	const clients, perClient, batch = 16, 62500, 100
	p := start(t, "-worker-id", "1")
	began := time.Now()
	all := make([][]uint64, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			mc := gomemcache(p.Addr())
			mc.MaxIdleConns = 1
			defer mc.Close()
			keys := make([]string, batch)
			for i := range keys {
				keys[i] = strconv.Itoa(i)
			}
			for len(all[c]) < perClient {
				if len(all[c])%5000 == 0 { // some one by one
					for range batch {
						item, err := mc.Get("id")
						if err != nil {
							t.Error(err)
							return
						}
						id, _ := strconv.ParseUint(string(item.Value), 10, 64)
						all[c] = append(all[c], id)
					}
					continue
				}
				items, err := mc.GetMulti(keys)
				if err != nil || len(items) != batch {
					t.Errorf("%d items: %v", len(items), err)
					return
				}
				for _, k := range keys {
					id, _ := strconv.ParseUint(string(items[k].Value), 10, 64)
					all[c] = append(all[c], id)
				}
			}
		})
	}
	wg.Wait()
	var ids []uint64
	for c, list := range all {
		for i, id := range list {
			if i > 0 && id <= list[i-1] {
				t.Fatalf("client %d: id %d came after %d", c, id, list[i-1])
			}
			parts := generator.Katsubushi().Decompose(id)
			if parts.Worker != 1 || parts.Time.Before(began.Add(-time.Second)) ||
				parts.Time.After(time.Now().Add(2*time.Second)) {
				t.Fatalf("id %d is of worker %d at %v", id, parts.Worker, parts.Time)
			}
		}
		ids = append(ids, list...)
	}
	if len(ids) != 1_000_000 {
		t.Fatalf("%d ids", len(ids))
	}
	if id, found := firstDuplicate(ids); found {
		t.Fatalf("id %d twice", id)
	}
	ids[123456] = ids[777777]
	if _, found := firstDuplicate(ids); !found {
		t.Fatal("the check misses a planted duplicate")
	}
}

// TestProcessHostileInput: none of it crashes the daemon, desynchronises the connection or stays in
// memory.
func TestProcessHostileInput(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker-id", "1", "-loops", "2")
	answer := "VERSION " + version + "\r\n"
	inData := "set k 0 0 8\r\nget id\r\n\r\nversion\r\n"
	for _, c := range []struct {
		name, send, want string
		closes           bool
	}{
		{"one space", " \r\nversion\r\n", "ERROR\r\n" + answer, false},
		{"a 300 KB line", strings.Repeat("x", 300<<10) + "\r\nversion\r\n", "CLIENT_ERROR line too long\r\n", true},
		{"get in a data block", inData, "SERVER_ERROR read-only: ids are not stored\r\n" + answer, false},
		{"data block too large", "set k 0 0 3000000\r\n" + strings.Repeat("get id\r\n", 375000) + "\r\nversion\r\n",
			"SERVER_ERROR object too large for cache\r\n" + answer, false},
		{"garbage", "\x01\x02\xff\xfe\r\n\x00\r\nversion\r\n", "ERROR\r\nERROR\r\n" + answer, false},
		{"HTTP", "POST /id HTTP/1.1\r\nHost: x\r\n\r\n", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, "tcp", p.Addr())
			go io.WriteString(conn, c.send)
			got := make([]byte, len(c.want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
				t.Fatalf("%q, %v", got, err)
			}
			if c.closes {
				if rest, _ := io.ReadAll(conn); len(rest) != 0 {
					t.Fatalf("%q after it", rest)
				}
			}
		})
	}
	t.Run("a claimed 2 GB body, sent by 8 clients", func(t *testing.T) {
		block := bytes.Repeat([]byte("get id\r\n"), 8<<10)
		send := func() {
			var wg sync.WaitGroup
			for range 8 {
				conn := dial(t, "tcp", p.Addr())
				wg.Go(func() {
					fmt.Fprintf(conn, "set k 0 0 2000000000\r\n")
					for range 32 << 20 / len(block) {
						conn.Write(block)
					}
				})
			}
			wg.Wait()
		}
		send() // the engine touches its buffers for the first time
		before := p.rss(t)
		send()
		// When a loop is kept from its processor for long enough, its ring doubles its buffers: up
		// to 16 MB for each loop, whatever is sent.
		if grown := p.rss(t) - before; grown > (2*16+8)<<20 {
			t.Errorf("256 MB of unfinished bodies made the daemon %d MB larger", grown>>20)
		}
	})
	if p.HasEnded() {
		t.Fatal("the daemon is gone")
	}
}

func TestProcessLibmemcachedTools(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker-id", "1")
	out := func(program string, args ...string) string {
		b, err := exec.Command(need(t, program), append([]string{"--servers=" + p.Addr()}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", program, err, b)
		}
		return strings.TrimSpace(string(b))
	}
	first, err1 := strconv.ParseUint(out("memccat", "id"), 10, 64)
	second, err2 := strconv.ParseUint(out("memccat", "id"), 10, 64)
	if err1 != nil || err2 != nil || second <= first {
		t.Errorf("memccat: %d then %d, %v %v", first, second, err1, err2)
	}
	out("memcping")
	if stat := out("memcstat"); !strings.Contains(stat, "cmd_get: ") || !strings.Contains(stat, "version: "+version) {
		t.Errorf("memcstat: %s", stat)
	}
}

func TestProcessUnixSocket(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "k.sock")
	p := start(t, "-worker-id", "1", "-sock", sock)
	item, err := gomemcache(sock).Get("id")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strconv.ParseUint(string(item.Value), 10, 64); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(sock); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	checkHealth(t, exitOK, "-ready", "-sock", sock)
	p.end(t, syscall.SIGTERM)
	if _, err := os.Lstat(sock); err == nil {
		t.Error("the socket is still there")
	}
}

func TestProcessStopsInGoodOrder(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		p := start(t, "-worker-id", "1")
		busy, idle := dial(t, "tcp", p.Addr()), dial(t, "tcp", p.Addr())
		io.WriteString(idle, "get i")
		r := bufio.NewReader(busy)
		for i := range 100 {
			if i == 50 {
				p.Process.Signal(signal)
			}
			if _, err := io.WriteString(busy, "get id\r\n"); err != nil {
				break
			}
			line, err := r.ReadString('\n')
			if err == io.EOF || line == "" {
				break // closed between two answers
			}
			value, err1 := r.ReadString('\n')
			end, err2 := r.ReadString('\n')
			if !strings.HasPrefix(line, "VALUE id 0 ") || len(value) < 10 || end != "END\r\n" {
				t.Fatalf("%v cut an answer: %q %q %q %v %v", signal, line, value, end, err1, err2)
			}
		}
		<-p.Ended()
		if p.ProcessState.ExitCode() != exitOK {
			t.Errorf("%v: exit code %d", signal, p.ProcessState.ExitCode())
		}
	}
}

func TestProcessUnreadyDuringShutdownDelay(t *testing.T) {
	t.Parallel()
	for delay := 2 * time.Second; !unreadyDuring(t, delay); delay *= 4 {
		if delay > 20*time.Second {
			t.Fatal("never seen un-ready")
		}
	}
}

// unreadyDuring returns false if the delay was over before this process, on a busy machine, had looked.
func unreadyDuring(t *testing.T, delay time.Duration) bool {
	t.Helper()
	p := start(t, "-worker-id", "1", "-http-port", freePort(t), "-shutdown-delay", delay.String())
	status := func() int {
		resp, err := http.Get("http://" + p.HTTP() + "/readyz")
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if s := status(); s != 200 {
		t.Fatalf("/readyz: %d", s)
	}
	p.Process.Signal(syscall.SIGTERM)
	signalled := time.Now()
	seen := 0
	await(t, "un-ready", func() bool {
		seen = status()
		return seen == 503 || p.HasEnded()
	})
	_, err := gomemcache(p.Addr()).Get("id")
	if took := time.Since(signalled); (seen != 503 || err != nil) && took > delay/2 {
		t.Logf("%v of a delay of %v had passed: once more", took, delay)
		<-p.Ended()
		return false
	}
	if seen != 503 || err != nil {
		t.Errorf("/readyz: %d, and for a client %v, before the delay of %v is over", seen, err, delay)
	}
	<-p.Ended()
	return true
}

// TestProcessRestartAfterKill: a successor starts above everything that its predecessor issued,
// however far that ran ahead of the clock: with a state directory in any case, without one as long
// as the clock did not go back.
func TestProcessRestartAfterKill(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"state file": {"-state-dir", t.TempDir(), "-state-any-disk"},
		"no state": nil} {
		t.Run(name, func(t *testing.T) {
			var last uint64
			for range 5 {
				p := start(t, append([]string{"-worker-id", "1"}, args...)...)
				ids := hurry(t, p, 400_000)
				p.Kill()
				if ids[0] <= last {
					t.Fatalf("the first id is %d after %d", ids[0], last)
				}
				last = ids[len(ids)-1]
			}
		})
	}
}

// hurry fetches at least n ids so fast that they run ahead of the clock.
func hurry(t *testing.T, p *process, n int) []uint64 {
	t.Helper()
	conn := dial(t, "tcp", p.Addr())
	go func() {
		for line := []byte("get" + strings.Repeat(" id", 500) + "\r\n"); ; { // until the connection is closed
			if _, err := conn.Write(line); err != nil {
				return
			}
		}
	}()
	defer conn.Close()
	var ids []uint64
	for r := bufio.NewScanner(conn); len(ids) < n && r.Scan(); {
		if id, err := strconv.ParseUint(r.Text(), 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) < n {
		t.Fatalf("%d ids of %d", len(ids), n)
	}
	return ids
}

// TestProcessCleanRestart: after a clean stop, the next run starts at once, just above the last id.
func TestProcessCleanRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var last uint64
	for range 3 {
		p := start(t, "-worker-id", "3", "-state-dir", dir, "-state-any-disk")
		ids := hurry(t, p, 400_000)
		if ids[0] <= last {
			t.Fatalf("the first id is %d after %d", ids[0], last)
		}
		last = ids[len(ids)-1]
		if code := p.end(t, syscall.SIGTERM); code != exitOK {
			t.Fatalf("exit code %d", code)
		}
		if p.Entry("worker ids are not given back: they are free when their windows end") != nil {
			t.Error("not given back")
		}
	}
}

// TestProcessTheSameWorkerIDTwice: the second daemon of a host with a worker id does not start,
// whatever its port and its state directory.
func TestProcessTheSameWorkerIDTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, "-worker-id", "1001", "-claim", "on", "-state-dir", dir, "-state-any-disk")
	for _, args := range [][]string{
		{"-worker-id", "1000-1002", "-claim", "on"},
		{"-worker-id", "1001", "-state-dir", dir, "-state-any-disk"},
	} {
		p := launch(t, args...)
		<-p.Ended()
		if code := p.ProcessState.ExitCode(); code != exitFailure || !strings.Contains(p.Logged(), "worker id 1001: in use") {
			t.Errorf("%q: exit code %d, %s", args, code, p.Logged())
		}
	}
}

func TestProcessHTTP(t *testing.T) {
	t.Parallel()
	debug := freePort(t)
	p := start(t, "-worker-id", "5", "-http-port", freePort(t), "-enable-stats", "-enable-pprof", "-debug-port", debug)
	getFrom := func(address, path string) string {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	get := func(path string) string { return getFrom(p.HTTP(), path) }
	id, err := strconv.ParseUint(get("/id"), 10, 64)
	if err != nil || generator.Katsubushi().Decompose(id).Worker != 5 {
		t.Errorf("/id: %d %v", id, err)
	}
	if ids := strings.Split(get("/ids?n=1000"), "\n"); len(ids) != 1000 {
		t.Errorf("/ids: %d", len(ids))
	}
	if _, err := gomemcache(p.Addr()).Get("id"); err != nil {
		t.Error(err)
	}
	var m string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m)
		}
	})
	await(t, "the loop has counted the answer that it sent", func() bool {
		m = get("/metrics")
		return strings.Contains(m, "\nkatsubushi_request_duration_seconds_count 1\n") // HTTP is not measured
	})
	for _, want := range []string{"katsubushi_ids_issued_total 1002", `katsubushi_commands_total{command="http"} 2`} {
		if !strings.Contains(m, "\n"+want+"\n") {
			t.Errorf("/metrics has no line %q", want)
		}
	}
	if e := getFrom("localhost:"+debug, "/debug/events"); !strings.Contains(e, " INFO  listening address="+p.Addr()) ||
		!strings.Contains(e, " state=serving ") {
		t.Errorf("/debug/events: %s", e)
	}
	if s := get("/stats"); !strings.Contains(s, `"get_hits": 1002,`) || !strings.Contains(s, `"cmd_get": 1002,`) ||
		!strings.Contains(s, `"get_requests": 3,`) {
		t.Error(s)
	}
}

// It cannot know which of the two is wrong, so it does not exit: after a boot the clock may be
// corrected any moment.
func TestProcessAnEpochAheadOfTheClockIsWaitedFor(t *testing.T) {
	t.Parallel()
	const why = ", 2060-01-01T00:00:00Z: this host's clock is wrong, or -epoch"
	port := freePort(t)
	p := launch(t, "-worker-id", "1", "-epoch", "2060-01-01T00:00:00Z", "-http-port", port)
	awaitReadyz(t, port, http.StatusServiceUnavailable, "no worker id yet", why)
	await(t, "the log says so too", func() bool { return p.Entry("lease") != nil }) // it has a way of its own
	if e := p.Entry("lease"); e["level"] != "WARN" || !strings.HasSuffix(fmt.Sprint(e["reason"]), why) {
		t.Errorf("logged %v", e)
	}
	if p.HasEnded() {
		t.Error("it exited")
	}
}

func TestProcessHasAProcessorBesideItsLoops(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	for engine, want := range map[string]string{"net": `"gomaxprocs":1,`, "auto": `"gomaxprocs":3,`} {
		debug := freePort(t)
		p := start(t, "-worker-id", "6", "-engine", engine, "-loops", "2", "-enable-stats", "-debug-port", debug)
		if strings.Contains(p.Logged(), `"name":"net"`) {
			want = `"gomaxprocs":1,` // there is no other engine here
		}
		resp, err := http.Get("http://localhost:" + debug + "/debug/stats")
		if err != nil {
			t.Fatal(err, p.Logged())
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), want) {
			t.Errorf("engine %s with two loops: want %s in %s", engine, want, b)
		}
	}
}

// freePort is a port for flags in which 0 means off.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(redistest.FreePort(t))
}
