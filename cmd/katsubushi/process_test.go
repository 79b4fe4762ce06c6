package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/katsubushi/katsubushi/v3/internal/control"
)

// TestMain builds the program once; the tests in this package that begin with TestProcess talk to
// it from outside. More of them run beside each other than there are processors: most of the time
// they wait for a lease or a clock.
func TestMain(m *testing.M) {
	if actAsSuccessor() || actAsBare() {
		return
	}
	flag.Parse()
	daemonsHere = ownDaemons
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set(f.Name, "4")
	}
	dir, err := os.MkdirTemp("", "katsubushi-test")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "katsubushi")
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")) // nothing in here writes into the home of whoever runs it
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		os.Exit(1)
	}
	// The daemons' memory pages outlive them; remove them with the tests.
	pages, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err == nil {
		os.Setenv("RUNTIME_DIRECTORY", pages)
	}
	stoodStill.late = map[time.Time]time.Duration{}
	go stoodStill.run()
	code := m.Run()
	os.RemoveAll(pages)
	os.RemoveAll(dir)
	os.Exit(code)
}

// ownDaemons leaves out the daemons of other packages' tests: a command that runs in this process is not to ask them.
func ownDaemons() ([]control.Daemon, error) {
	found, err := control.Find()
	return slices.DeleteFunc(found, func(d control.Daemon) bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID))
		return d.PID != os.Getpid() && !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	}), err
}

var binary string

// A process is a running daemon and what it logged.
type process struct {
	*exec.Cmd
	addr, http string
	mu         sync.Mutex
	log        bytes.Buffer
	exited     chan struct{}
}

// start runs the daemon with more arguments, on loopback and a free port, and waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := launch(t, args...)
	p.waitListening(t)
	return p
}

// launch starts the daemon and does not wait. The daemon makes no claim and records nothing, because
// other tests use worker id 1 too.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchBy(t, (*exec.Cmd).Start, args...)
}

// launchBy is launch with another way to start the process.
func launchBy(t *testing.T, begin func(*exec.Cmd) error, args ...string) *process {
	t.Helper()
	return launchWith(t, begin,
		append([]string{"-bind", "127.0.0.1", "-port", "0", "-log-format", "json", "-log-level", "debug", "-claim", "off",
			"-state-dir", "none"}, args...)...)
}

// launchWith launches with these arguments alone.
func launchWith(t *testing.T, begin func(*exec.Cmd) error, args ...string) *process {
	t.Helper()
	return launchProgram(t, begin, binary, args...)
}

// launchProgram launches another program with these arguments.
func launchProgram(t *testing.T, begin func(*exec.Cmd) error, program string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(program, args...), exited: make(chan struct{})}
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := begin(p.Cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		io.Copy(lockedWriter{p}, stderr)
		p.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%v logged:\n%s", args, p.logged())
		}
	})
	return p
}

type lockedWriter struct{ p *process }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.log.Write(b)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// entry finds the first log line with a message.
func (p *process) entry(msg string) map[string]any {
	for s := bufio.NewScanner(bytes.NewReader([]byte(p.logged()))); s.Scan(); {
		var e map[string]any
		// Most lines have another message, and await comes by hundreds of times a second.
		if bytes.Contains(s.Bytes(), []byte(msg)) && json.Unmarshal(s.Bytes(), &e) == nil && e["msg"] == msg {
			return e
		}
	}
	return nil
}

func (p *process) waitListening(t *testing.T) {
	t.Helper()
	await(t, "the daemon listens", func() bool {
		if e := p.entry("listening"); e != nil {
			p.addr = e["address"].(string)
		}
		if e := p.entry("http listening"); e != nil { // logged before the above, so it is looked for afterwards
			p.http = e["address"].(string)
		}
		return p.addr != "" || p.hasExited()
	})
	if p.addr == "" {
		t.Fatal("the daemon exited")
	}
}

// says waits until the daemon has logged a text: what it did may be seen before its line arrives.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	await(t, "it logs "+text, func() bool { return strings.Contains(p.logged(), text) })
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// await waits for a condition; the deadline is only for a test that fails.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in two minutes: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// rss is the process's resident memory in bytes.
func (p *process) rss(t *testing.T) int64 {
	t.Helper()
	return procKB(t, p.Process.Pid, "VmRSS") << 10
}

func dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout(network, addr, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	t.Cleanup(func() { c.Close() })
	return c
}

// gomemcache is that client. By itself it gives up after half a second, which a busy machine may take.
func gomemcache(addr string) *memcache.Client {
	c := memcache.New(addr)
	c.Timeout = 2 * time.Minute
	return c
}

// need skips the test when a program is missing, or fails it where the environment promises that it
// is there.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}
