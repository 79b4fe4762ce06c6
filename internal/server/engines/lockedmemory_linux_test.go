package engines

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

const lockedEnv = "KATSUBUSHI_SERVER_TEST_LOCKED"

// TestLittleLockedMemory: where a process may lock memory for no ring, or for those of some loops only, auto takes
// another engine. Whatever it takes serves.
func TestLittleLockedMemory(t *testing.T) {
	if os.Getenv(lockedEnv) != "" {
		serveWithLockedMemory(t)
		return
	}
	taken := map[string]bool{}
	for kib := 256; kib <= 8192; kib += kib / 2 {
		name := serveLocked(t, kib)
		if t.Failed() {
			return
		}
		taken[name] = true
	}
	if !taken["epoll"] {
		t.Errorf("engines %v: not epoll with the least memory", taken)
	}
}

// serveLocked runs this test in a process that may lock that much, and returns the engine that it takes.
func serveLocked(t *testing.T, kib int) (engine string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLittleLockedMemory$", "-test.v")
	cmd.Env = append(os.Environ(), lockedEnv+"="+strconv.Itoa(kib))
	ran := make(chan error)
	var out []byte
	go func() {
		runtime.LockOSThread()                                       // never unlocked: the thread ends with the goroutine
		unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0) // of root, whom no limit holds
		var err error
		out, err = cmd.CombinedOutput()
		ran <- err
	}()
	if err := <-ran; err != nil {
		t.Errorf("with %d KiB: %v\n%s", kib, err, out)
	}
	_, engine, _ = strings.Cut(string(out), "takes ")
	engine, _, _ = strings.Cut(engine, "\n")
	return engine
}

// serveWithLockedMemory is the other process.
func serveWithLockedMemory(t *testing.T) {
	kib, err := strconv.ParseUint(os.Getenv(lockedEnv), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: kib << 10, Max: kib << 10}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Skip(err)
	}
	const loops = 3
	newEngine, _, err := Choose("auto", loops)
	if err != nil {
		t.Fatal(err)
	}
	engine := newEngine(server.Config{
		Now: func() int64 { return 0 }, DrainTimeout: time.Second, Counters: new(server.Counters),
		Log: slog.New(slog.DiscardHandler),
	})
	fmt.Printf("takes %s\n", engine.Name())
	lns, err := server.ListenTCP("127.0.0.1:0", loops)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	open := func(int, *latency.Asked) server.Session { return new(lineSession) }
	go func() { ended <- engine.Serve(ctx, []server.Port{{Listeners: lns, Open: open}}) }()
	conn, err := net.Dial("tcp", lns[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "echo 1\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Errorf("%q, %v", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
