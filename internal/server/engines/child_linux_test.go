package engines

import (
	"bufio"
	"context"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A child is an engine in its own process, for tests of per-process resources: memory, the limit of
// open files.
type child struct {
	*rig
	pid int
}

const childEnv = "KATSUBUSHI_SERVER_TEST_CHILD"

// startChild starts m with a limit of open files. The child ends with the test.
func startChild(t *testing.T, m candidate, p place, files int) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(),
		childEnv+"="+fmt.Sprint(m.name, " ", p.network, " ", p.loops, " ", files, " ", shortTempDir(t)+"/s"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // makes it end
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("child: %v\n%s", err, rest)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			return &child{&rig{t: t, network: p.network, address: address}, cmd.Process.Pid}
		}
	}
	t.Fatal("child did not start")
	return nil
}

// TestChild is the code that the child runs.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("for other tests")
	}
	var name, network, path string
	var loops, files int
	if _, err := fmt.Sscan(os.Getenv(childEnv), &name, &network, &loops, &files, &path); err != nil {
		t.Fatal(err)
	}
	var lns []net.Listener
	var err error
	if network == "tcp" {
		lns, err = server.ListenTCP("127.0.0.1:0", loops)
	} else {
		lns, err = server.ListenUnix(path, 0o700, loops)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(files), Max: uint64(files)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	counters := new(server.Counters)
	c := server.Config{
		Now: func() int64 { return 0 }, DrainTimeout: time.Second, IdleTimeout: time.Hour,
		Counters: counters, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	done := make(chan error)
	stats := &childStats{counters: counters}
	for _, m := range makers() {
		if m.name == name {
			stats.engine = m.make(c)
			go func() {
				done <- stats.engine.Serve(ctx, []server.Port{{Listeners: lns, Open: func(int, *latency.Asked) server.Session {
					return &statSession{lineSession{well: &stats.well}, stats}
				}}})
			}()
		}
	}
	fmt.Printf("listening on %s\n", lns[0].Addr())
	io.Copy(io.Discard, os.Stdin)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A statSession is a lineSession that also reports the count of accept errors ("stat errors"), and
// how often the well was asked in vain ("stat asked"), and what the program holds in bytes, garbage
// left out ("stat held"); "stat fill N" fills the well and wakes the engine.
type statSession struct {
	lineSession
	*childStats
}

type childStats struct {
	counters *server.Counters
	engine   server.Engine
	well     well
}

func (s *statSession) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	if verb := in[:min(4, len(in))]; string(verb) == "stat" {
		return len(in), s.answer(string(in), out), nil
	}
	return s.lineSession.Feed(now, in, out)
}

func (s *childStats) answer(line string, out []byte) []byte {
	_, verb, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	switch verb, rest, _ := strings.Cut(verb, " "); verb {
	case "errors":
		return strconv.AppendUint(out, s.counters.AcceptErrors.Load(), 10)
	case "asked":
		return strconv.AppendInt(out, s.well.asked.Load(), 10)
	case "held":
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return strconv.AppendUint(out, m.HeapAlloc+m.StackInuse, 10)
	case "fill":
		n, _ := strconv.Atoi(rest)
		s.well.tickets.Add(int64(n))
		s.engine.Wake()
		return append(out, '1')
	}
	return out
}

// number asks a statSession for a number.
func (c *client) number(question string) int {
	c.t.Helper()
	c.say("stat %s\n", question)
	buf := make([]byte, 20)
	n, err := c.Read(buf)
	if err != nil {
		c.t.Fatal(err)
	}
	number, err := strconv.Atoi(string(buf[:n]))
	if err != nil {
		c.t.Fatal(err)
	}
	return number
}

// A footprint is memory of the child in bytes: what the program holds, exactly, and what is resident, with
// garbage, free spans and what the collector itself needs, which vary with processors and kernels.
type footprint struct{ held, resident int }

func (c *child) footprint(through *client) footprint {
	c.t.Helper()
	held := through.number("held")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		c.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	var kb int
	if _, err := fmt.Sscan(after, &kb); err != nil {
		c.t.Fatal(err)
	}
	return footprint{held, kb << 10}
}

// wantAtMost fails the test if each of count connections has added more than the bar.
func (f footprint) wantAtMost(t *testing.T, bar, before footprint, count int) {
	t.Helper()
	each := footprint{(f.held - before.held) / count, (f.resident - before.resident) / count}
	t.Logf("each of %d connections: %+v bytes", count, each)
	if bar.held > 0 && each.held > bar.held || bar.resident > 0 && each.resident > bar.resident {
		t.Errorf("each connection: %+v bytes, want at most %+v", each, bar)
	}
}

// The engine survives running out of files: it keeps serving open connections, and serves the
// others later.
func TestTooManyOpenFiles(t *testing.T) {
	for _, m := range makers() {
		t.Run(m.name, func(t *testing.T) {
			const files, extra = 60, 30
			c := startChild(t, m, place{"tcp", 1}, files)
			first := c.dial()
			first.echo(1)
			var clients []*client
			for range files + extra { // the kernel completes all; some wait in the backlog
				cl := c.dial()
				cl.say("echo 2\r\n")
				clients = append(clients, cl)
			}
			var errors int
			eventually(t, func() string {
				if errors = first.number("errors"); errors < 2 {
					return "no accept errors counted"
				}
				return ""
			})
			t.Logf("%d accept errors", errors)
			for _, cl := range clients { // each close makes room for another
				cl.expect("2\r\n")
				cl.abort()
			}
			first.echo("still here")
		})
	}
}

// startCrowd starts a child of one loop for many connections, and returns how many there are to be.
func startCrowd(t *testing.T, m candidate) (c *child, count int) {
	t.Helper()
	if raceDetector {
		t.Skip("run without the race detector, which costs 20 times the memory and time")
	}
	count = 10_000
	if m.name == "tinyuring" {
		count = 500 // for each it has room for, the engine tries all of them again
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if have := int(limit.Cur) - 500; have < count {
		t.Logf("only %d connections, for a limit of %d open files", have, limit.Cur)
		count = have
	}
	return startChild(t, m, place{"tcp", 1}, count+500), count
}

// connect makes a connection that takes little memory here.
func (c *child) connect() *client {
	c.t.Helper()
	conn, err := net.Dial(c.network, c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	return &client{conn, c.t, bufio.NewReaderSize(conn, 16)}
}

// idleBar is the most that an idle connection may take. A page or a buffer for each would be seen in what is resident.
var idleBar = map[string]footprint{"net": {4000, 6000}, "epoll": {150, 600}, "uring": {150, 600}}

// parkedBar is the most that a parked connection may take beyond what it takes when it is idle.
var parkedBar = map[string]footprint{"net": {2500, 4000}, "epoll": {200, 600}, "uring": {200, 600}}

// Very many connections are idle; all wait, while others of their loops are answered; then all are answered, and what
// they ask all at once too.
func TestTenThousandConnections(t *testing.T) {
	for _, m := range makers() {
		t.Run(m.name, func(t *testing.T) {
			c, count := startCrowd(t, m)
			other := c.connect()
			for i := range 1000 {
				other.echo(i)
			}
			before := c.footprint(other)
			clients := make([]*client, count)
			for i := range clients {
				clients[i] = c.connect()
				clients[i].echo(i)
			}
			idle := c.footprint(other)
			idle.wantAtMost(t, idleBar[m.name], before, count)
			for i, cl := range clients {
				cl.say("take %d\r\n", i)
			}
			eventually(t, func() string {
				if n := other.number("asked"); n < count {
					return fmt.Sprintf("%d takes asked, want %d", n, count)
				}
				return ""
			})
			c.footprint(other).wantAtMost(t, parkedBar[m.name], idle, count)
			other.number(fmt.Sprintf("fill %d", count))
			// All at once: more than any queue or set of buffers holds.
			syscall.Kill(c.pid, syscall.SIGSTOP)
			for i, cl := range clients {
				cl.say("echo %d\r\n", i)
			}
			syscall.Kill(c.pid, syscall.SIGCONT)
			for i, cl := range clients {
				cl.expect(fmt.Sprintf("%d\r\n%d\r\n", i, i))
			}
			for i, cl := range clients {
				cl.echo(i)
				cl.abort()
			}
			other.echo(1)
			other.Close()
		})
	}
}
