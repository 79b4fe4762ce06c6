package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
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

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// memoryOf is a figure of a process in /proc, in bytes: VmRSS now, VmHWM at most.
func memoryOf(t *testing.T, pid int, figure string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err)
	}
	m := regexp.MustCompile(figure + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no %s in %s", figure, status)
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb << 10
}

// TestProcessManyIDs: 16 gomemcache clients of one connection each fetch 80,000 ids, one by
// one and a hundred at a time.
func TestProcessManyIDs(t *testing.T) {
	t.Parallel()
	const clients, perClient, batch = 16, 5_000, 100
	p := start(t, "-worker-id", "1")
	began, all := time.Now(), census{}
	keys := make([]string, batch)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			mc := gomemcache(p.Addr())
			mc.MaxIdleConns = 1
			defer mc.Close()
			ids := make([]uint64, 0, perClient)
			take := func(item *memcache.Item) {
				id, _ := strconv.ParseUint(string(item.Value), 10, 64)
				if len(ids) > 0 && id <= ids[len(ids)-1] {
					t.Errorf("client %d: id %d came after %d", c, id, ids[len(ids)-1])
				}
				ids = append(ids, id)
			}
			for len(ids) < perClient && !t.Failed() {
				if len(ids)%5000 == 0 { // some one by one
					for range batch {
						item, err := mc.Get("id")
						if err != nil {
							t.Error(err)
							return
						}
						take(item)
					}
					continue
				}
				items, err := mc.GetMulti(keys)
				if err != nil || len(items) != batch {
					t.Errorf("%d items: %v", len(items), err)
					return
				}
				for _, k := range keys {
					take(items[k])
				}
			}
			all.add(ids)
		})
	}
	wg.Wait()
	if n := all.ids.Len(); n != clients*perClient {
		t.Errorf("%d ids", n)
	}
	for _, id := range []uint64{all.min, all.max} {
		if parts := generator.Katsubushi().Decompose(id); parts.Worker != 1 {
			t.Errorf("id %d is of worker %d", id, parts.Worker)
		}
	}
	all.issuedBetween(t, began)
	all.verdict(t)
}

// TestProcessHostileInput: bodies of 2 GB, claimed and begun, do not stay in memory.
func TestProcessHostileInput(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker-id", "1", "-loops", "2")
	block := bytes.Repeat([]byte("get id\r\n"), 8<<10)
	send := func() {
		var wg sync.WaitGroup
		for range 8 {
			conn := dial(t, "tcp", p.Addr())
			wg.Go(func() {
				fmt.Fprintf(conn, "set k 0 0 2000000000\r\n")
				for range 16 << 20 / len(block) {
					conn.Write(block)
				}
			})
		}
		wg.Wait()
	}
	send() // the engine touches its buffers for the first time
	before := memoryOf(t, p.Process.Pid, "VmRSS")
	send()
	// When a loop is kept from its processor for long enough, its ring doubles its buffers: up
	// to 16 MB for each loop, whatever is sent.
	if grown := memoryOf(t, p.Process.Pid, "VmRSS") - before; grown > (2*16+8)<<20 {
		t.Errorf("128 MB of unfinished bodies made the daemon %d MB larger", grown>>20)
	}
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

// TestProcessTakesSignalsWhileItStarts: a counter store that is silent makes that long.
func TestProcessTakesSignalsWhileItStarts(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := launch(t, "-worker-id", "1", "-counters", "postgres://u@"+silent.Addr().String()+"/x?sslmode=disable")
		c, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p.Signal(t, syscall.SIGHUP)
		p.Signal(t, syscall.SIGHUP)
		if signal != syscall.SIGHUP {
			if code := p.end(t, signal); code != exitOK || p.Entry("stopping") == nil || p.Entry("listening") != nil {
				t.Errorf("%v: exit code %d", signal, code)
			}
		}
		silent.Close()
		c.Close()
		if signal == syscall.SIGHUP {
			p.WaitListening(t)
			p.Says(t, "nothing to reload")
		}
	}
}

// TestProcessRestartAfterKill: a successor starts above everything that its predecessor issued,
// however far that ran ahead of the clock: with a state directory in any case, without one as long
// as the clock did not go back.
func TestProcessRestartAfterKill(t *testing.T) {
	t.Parallel()
	// 16 ids a millisecond, so that those of half a second come at once.
	layout := []string{"-layout", "node:18,time:41,sequence:4"}
	onDisk := append(layout, "-state-dir", t.TempDir(), "-state-any-disk")
	for name, c := range map[string]struct {
		signal syscall.Signal
		args   []string
	}{
		"state file": {syscall.SIGKILL, slices.Concat(onDisk, []string{"-worker-id", "1"})},
		"no state":   {syscall.SIGKILL, slices.Concat(layout, []string{"-worker-id", "1"})},
		"clean stop": {syscall.SIGTERM, slices.Concat(onDisk, []string{"-worker-id", "3"})},
	} {
		t.Run(name, func(t *testing.T) {
			var last uint64
			for range 4 {
				p := start(t, c.args...)
				ids := hurry(t, p, 8_000)
				if code := p.end(t, c.signal); c.signal == syscall.SIGTERM && code != exitOK {
					t.Fatalf("exit code %d", code)
				}
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

// TestProcessDebugPort: what -enable-stats and -debug-port show. The daemon has a processor beside its loops.
func TestProcessDebugPort(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	for engine, want := range map[string]string{"net": `"gomaxprocs":1,`, "auto": `"gomaxprocs":3,`} {
		debug := freePort(t)
		p := start(t, "-worker-id", "6", "-engine", engine, "-loops", "2", "-enable-stats", "-enable-pprof",
			"-debug-port", debug)
		if strings.Contains(p.Logged(), `"name":"net"`) {
			want = `"gomaxprocs":1,` // there is no other engine here
		}
		for path, want := range map[string]string{"/debug/stats": want,
			"/debug/events": " INFO  listening address=" + p.Addr(), "/debug/pprof/cmdline": "-enable-pprof"} {
			if _, _, got := httpGet(debug, path); !strings.Contains(got, want) {
				t.Errorf("engine %s with two loops, %s: want %s in %s", engine, path, want, got)
			}
		}
	}
}

// freePort is a port for flags in which 0 means off.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(redistest.FreePort(t))
}
