package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// patience is how long a test waits for something that must happen. No test asserts how long it
// takes.
const patience = time.Minute

// testConfig configures a daemon on any free port of the loopback address, without files.
func testConfig() Config {
	return Config{
		Version: "3.4.5", Log: slog.New(slog.DiscardHandler),
		Windows: Windows{WorkerIDs: []uint64{1}, Layout: generator.Katsubushi(), MaxRunAhead: time.Second},
		Front:   Front{Bind: "127.0.0.1", Engine: "net", Loops: 1, MaxConnections: 1000, DrainTimeout: patience},
	}
}

// run starts a daemon on a free port, with the settings that change has changed and after what else is to be done to
// it, and stops it at the end of the test.
func run(t *testing.T, change func(*Config), more ...func(*Daemon)) (d *Daemon, address string) {
	t.Helper()
	c := testConfig()
	change(&c)
	d, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range more {
		do(d)
	}
	ctx, cancel := context.WithCancel(context.Background()) // the test's own would end all daemons at once
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-d.Serving():
	case err := <-ended:
		ended <- err
		t.Fatal("the daemon ended")
	case <-time.After(patience):
		t.Fatal("the daemon does not serve")
	}
	return d, d.Addr().String()
}

// enginesHere returns the engines that run here.
func enginesHere() (names []string) {
	for _, name := range []string{"net", "epoll", "uring"} {
		if _, _, err := engines.Choose(name, 2); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(4 * patience)) // for all of a test
	t.Cleanup(func() { c.Close() })
	return c
}

// get asks for one id over a connection.
func get(t *testing.T, c net.Conn) uint64 {
	t.Helper()
	io.WriteString(c, "get id\r\n")
	r := bufio.NewReader(c)
	r.ReadString('\n')
	line, err := r.ReadString('\n')
	id, e := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if _, end := r.ReadString('\n'); err != nil || e != nil || end != nil {
		t.Fatal(line, errors.Join(err, e, end))
	}
	return id
}

// one sends a request, and returns the first line of its answer, or of a VALUE or $N the line behind it.
func one(t *testing.T, address, request string) string {
	t.Helper()
	c := dial(t, address)
	defer c.Close()
	io.WriteString(c, request)
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if strings.HasPrefix(line, "VALUE ") || strings.HasPrefix(line, "$") {
		line, err = r.ReadString('\n')
	}
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return strings.Trim(line, ":\r\n")
}

// texts returns a group of statistics.
func (d *Daemon) texts(group string) map[string]string {
	m := map[string]string{}
	d.observer.Stats([]byte(group), func(name, value string) { m[name] = value })
	return m
}

// await waits until is returns true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so: ", what)
		}
	}
}

// TestEveryLoopHasItsHomeLane: if all loops began with the same lane, they would compete for its
// word, and ids of the other lane would be issued only when ahead of the clock. The kernel chooses
// the loop of a connection: with 64 connections, both loops get some.
func TestEveryLoopHasItsHomeLane(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("does not apply: there is one loop only")
	}
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			d, address := run(t, func(c *Config) { c.Engine, c.Loops, c.WorkerIDs = engine, 2, []uint64{11, 22} })
			await(t, "both lanes serve", func() bool {
				s := d.windows.Lanes()
				return s[0].State == workerid.Serving && s[1].State == workerid.Serving
			})
			seen := map[uint64]bool{}
			for range 64 {
				seen[d.c.Layout.Decompose(get(t, dial(t, address))).Worker] = true
			}
			if len(seen) != 2 {
				t.Errorf("64 connections on two loops have ids of the worker ids %v alone", seen)
			}
		})
	}
}
