package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

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

// TestProcessUnixSocket: the client that most Go programs use gets an id over a unix socket.
func TestProcessUnixSocket(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "k.sock")
	p := start(t, "-worker-id", "1", "-sock", sock)
	client := memcache.New(sock)
	client.Timeout = 2 * time.Minute // it gives up after half a second, which a busy machine may take
	item, err := client.Get("id")
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
	if code := p.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(sock); err == nil {
		t.Error("the socket is still there")
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
