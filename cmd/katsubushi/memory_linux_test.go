package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// availableEngines are the engines that run here.
func availableEngines(t *testing.T) (names []string) {
	for _, name := range []string{"uring", "epoll", "net"} {
		told, _ := exec.Command(binary, "-worker-id", "1", "-port", "-1", "-engine", name).CombinedOutput()
		if !bytes.Contains(told, []byte("engine "+name)) {
			names = append(names, name)
		}
	}
	return names
}

// longLines opens connections that send the first size bytes of a get line each, and go on when
// they are written or nobody takes more.
func longLines(t *testing.T, addr string, clients, size int) (conns []net.Conn) {
	t.Helper()
	line := []byte("get " + strings.Repeat(strings.Repeat("k", 199)+" ", size/200))
	var all sync.WaitGroup
	for range clients {
		c := dial(t, "tcp", addr)
		conns = append(conns, c)
		all.Go(func() { c.Write(line) })
	}
	all.Wait()
	return conns
}

// stats are some values of /stats.
type stats struct {
	Held   int `json:"buffer_memory_bytes"`
	Limit  int `json:"buffer_memory_limit_bytes"`
	Closed int `json:"memory_closed_connections"`

	Refused int `json:"rejected_connections"`

	AcquisitionsFailed int `json:"lease_acquisitions_failed"`
}

func readStats(t *testing.T, port string) (s stats) {
	t.Helper()
	_, _, body := httpGet(port, "/stats")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return s
}

// Unfinished lines of a megabyte each, many times what there is room for: the daemon lives, answers
// others, tells whom it closes, and does not grow beyond a bound. When the clients have left it
// gives the memory back.
func TestProcessBufferMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit, clients, size = 16 << 20, 280, 1<<20 - 400
	const bound = clients * size / 5 * 4 // most runs stay below half of that: it depends on when garbage is collected
	for _, engine := range availableEngines(t) {
		t.Run(engine, func(t *testing.T) {
			port := freePort(t)
			p := start(t, "-worker-id", "1", "-engine", engine, "-loops", "2", "-max-buffer-memory", "16MiB", "-http-port", port)
			before := memoryOf(t, p.Process.Pid, "VmRSS")
			conns := longLines(t, p.Addr(), clients, size)
			await(t, "the rest fits", func() bool {
				s := readStats(t, port)
				return s.Held <= limit && s.Closed >= clients-limit/size && s.Closed < clients
			})
			if s := readStats(t, port); s.Limit != limit {
				t.Errorf("a limit of %d bytes, want %d", s.Limit, limit)
			}
			other := newAsker(t, "tcp", p.Addr())
			other.id(t)
			var told atomic.Int64
			for _, c := range conns {
				go func() {
					if line, _ := bufio.NewReader(c).ReadString('\n'); line == "SERVER_ERROR out of memory\r\n" {
						told.Add(1)
					}
				}()
			}
			// one that sends for long may be reset
			await(t, "they were told why", func() bool { return told.Load() > clients/2 })
			for _, c := range append(conns, other) {
				c.Close()
			}
			await(t, "nothing is held", func() bool { return readStats(t, port).Held == 0 })
			if most := memoryOf(t, p.Process.Pid, "VmHWM"); most > bound {
				t.Errorf("%d MiB at the worst, want at most %d", most>>20, bound>>20)
			}
			await(t, "the memory is given back", func() bool { return memoryOf(t, p.Process.Pid, "VmRSS") < before+24<<20 })
			p.Says(t, "out of buffer memory: the connections that held most were closed")
		})
	}
}

// Also memory that is within the limit goes back to the system when the clients have left.
func TestProcessBufferMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	const clients, size = 60, 1<<20 - 400
	for _, engine := range availableEngines(t) {
		t.Run(engine, func(t *testing.T) {
			port := freePort(t)
			p := start(t, "-worker-id", "1", "-engine", engine, "-loops", "2", "-max-buffer-memory", "1g", "-http-port", port)
			before := memoryOf(t, p.Process.Pid, "VmRSS")
			conns := longLines(t, p.Addr(), clients, size)
			await(t, "all lines are there", func() bool { return readStats(t, port).Held >= clients*size })
			if grown := memoryOf(t, p.Process.Pid, "VmRSS") - before; grown < clients*size {
				t.Fatalf("the daemon has grown by %d bytes only", grown)
			}
			for _, c := range conns {
				c.Close()
			}
			await(t, "the memory is given back", func() bool { return memoryOf(t, p.Process.Pid, "VmRSS") < before+24<<20 })
			if s := readStats(t, port); s.Held != 0 || s.Closed != 0 {
				t.Errorf("%d bytes held, %d connections closed in the end", s.Held, s.Closed)
			}
		})
	}
}

// TestProcessMemoryFigures measures what the docs tell: the memory of the engines and of memcached
// under two attacks, and some seconds after. It takes minutes, so it runs when it is asked for:
//
//	KATSUBUSHI_MEMORY_FIGURES=1 go test ./cmd/katsubushi -run TestProcessMemoryFigures -v
//
// KATSUBUSHI_BEFORE names another katsubushi to measure beside this one.
func TestProcessMemoryFigures(t *testing.T) {
	if os.Getenv("KATSUBUSHI_MEMORY_FIGURES") == "" {
		t.Skip("KATSUBUSHI_MEMORY_FIGURES is not set")
	}
	memcached := need(t, "memcached")
	programs := []string{binary}
	if other := os.Getenv("KATSUBUSHI_BEFORE"); other != "" {
		programs = []string{other, binary}
	}
	t.Logf("%-28s %-22s %9s %9s %9s", "RSS in MiB", "1,000 clients that", "before", "at most", "5 s after")
	for _, attack := range []struct {
		name string
		run  func(t *testing.T, addr string) []net.Conn
	}{
		{"do not read", func(t *testing.T, addr string) []net.Conn { return greedy(t, addr, 1000) }},
		{"do not end a line", func(t *testing.T, addr string) []net.Conn { return longLines(t, addr, 1000, 1<<20-400) }},
	} {
		measure := func(name string, pid int, addr string) {
			before := memoryOf(t, pid, "VmRSS")
			conns := attack.run(t, addr)
			time.Sleep(5 * time.Second) // what was sent may have yet to be read
			for _, c := range conns {
				c.Close()
			}
			time.Sleep(5 * time.Second)
			t.Logf("%-28s %-22s %9d %9d %9d", name, attack.name, before>>20, memoryOf(t, pid, "VmHWM")>>20,
				memoryOf(t, pid, "VmRSS")>>20)
		}
		for i, program := range programs {
			for _, engine := range availableEngines(t) {
				port := freePort(t)
				measureProgram(t, engine+[]string{"", " (this one)"}[i*(len(programs)-1)], measure, port, program, "-worker-id",
					"1", "-claim", "off", "-bind", "127.0.0.1",
					"-port", port, "-engine", engine, "-loops", "2", "-log-level", "error")
			}
		}
		port := freePort(t)
		measureProgram(t, "memcached", measure, port, memcached, "-u", "root", "-l", "127.0.0.1", "-p", port, "-t", "2", "-c",
			"2000")
	}
}

// TestProcessSizeFigures measures what SIZING tells of names and of connections of the HTTP port, when it is asked for
// like TestProcessMemoryFigures. internal/server/engines measures the connections of the engines' ports.
func TestProcessSizeFigures(t *testing.T) {
	if os.Getenv("KATSUBUSHI_MEMORY_FIGURES") == "" {
		t.Skip("KATSUBUSHI_MEMORY_FIGURES is not set")
	}
	const names, sequences, conns = 10_000, 1000, 1000
	calm := func(pid int) int {
		time.Sleep(3 * time.Second) // the daemon gives back what its start needed
		return memoryOf(t, pid, "VmRSS")
	}
	web := freePort(t)
	run := func(format string, n int) (p *process, rss int) {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, format+"\n", i)
		}
		file := tempfile.Write(t, "names", lines.String())
		p = start(t, "-worker-id", "1", "-names", file, "-http-port", web, "-state-dir", t.TempDir())
		return p, calm(p.Process.Pid)
	}
	p, none := run("", 0)
	t.Logf("a daemon after its start: %d MB", none/1e6)
	for range conns {
		c := dial(t, "tcp", net.JoinHostPort("127.0.0.1", web))
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a connection of the HTTP port: %d bytes", (calm(p.Process.Pid)-none)/conns)
	p.end(t, syscall.SIGTERM)
	p, many := run("name%d uuid7", names)
	t.Logf("a name: %d bytes", (many-none)/names)
	p.end(t, syscall.SIGTERM)
	p, _ = run("sequence%d sequence", sequences)
	c := dial(t, "tcp", p.Addr())
	for i := range sequences { // it has a block then
		fmt.Fprintf(c, "get sequence%d\r\n", i)
	}
	for r, ends := bufio.NewReader(c), 0; ends < sequences; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "END\r\n" {
			ends++
		}
	}
	t.Logf("a sequence in the state directory: %d bytes", (calm(p.Process.Pid)-none)/sequences)
}

// measureProgram runs a server, and measure on it.
func measureProgram(t *testing.T, name string, measure func(name string, pid int, addr string), port, program string,
	args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	addr := net.JoinHostPort("127.0.0.1", port)
	await(t, name+" listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		io.WriteString(c, "set k 0 0 19\r\n1234567890123456789\r\n") // what memcached is to answer with
		_, err = bufio.NewReader(c).ReadString('\n')
		return err == nil
	})
	measure(name, cmd.Process.Pid, addr)
}

// greedy opens connections that ask for far more than they take.
func greedy(t *testing.T, addr string, clients int) (conns []net.Conn) {
	t.Helper()
	lines := []byte(strings.Repeat("get "+strings.Repeat("k ", 100)+"\r\n", 2000))
	var all sync.WaitGroup
	for range clients {
		c := dial(t, "tcp", addr)
		conns = append(conns, c)
		all.Go(func() {
			c.SetWriteDeadline(time.Now().Add(10 * time.Second))
			for {
				if _, err := c.Write(lines); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return conns
}
