package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// A manager stands for systemd, and notes what it is told.
type manager struct {
	*net.UnixConn
	mu   sync.Mutex
	told []string // a datagram each
}

func newManager(t *testing.T) *manager {
	t.Helper()
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m := &manager{UnixConn: conn}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

// start starts the daemon as a unit with Type=notify and more variables.
func (m *manager) start(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	return launchIn(t, append(variables, "NOTIFY_SOCKET="+m.LocalAddr().String()), args...)
}

// index returns the place of the first message from a place on that has a line with this beginning, or -1.
func (m *manager) index(from int, line string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := from; i < len(m.told); i++ {
		if slices.ContainsFunc(strings.Split(m.told[i], "\n"), func(l string) bool { return strings.HasPrefix(l, line) }) {
			return i
		}
	}
	return -1
}

func (m *manager) await(t *testing.T, from int, line string) (at int) {
	t.Helper()
	await(t, "systemd is told "+line, func() bool {
		at = m.index(from, line)
		return at >= 0
	})
	return at
}

func (m *manager) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.told)
}

// TestProcessTellsSystemd: when it serves, reloads and stops, and that it lives as long as its own port
// answers.
func TestProcessTellsSystemd(t *testing.T) {
	t.Parallel()
	m, sock := newManager(t), filepath.Join(t.TempDir(), "ids")
	names := tempfile.Write(t, "names", "sessions uuid7\n")
	p := m.start(t, []string{"WATCHDOG_USEC=600000"}, "-worker-id", "77", "-sock", sock, "-generators", names)
	ready := m.await(t, 0, "READY=1")
	c, err := net.Dial("unix", sock) // its log may come later
	if err != nil {
		t.Fatal("ready before the port is open: ", err)
	}
	defer c.Close()
	m.await(t, ready, "STATUS=serving, worker id 77")
	m.await(t, ready, "WATCHDOG=1")
	tempfile.Write(t, names, "sessions uuid7\ntokens uuid7\n")
	p.Process.Signal(syscall.SIGHUP)
	reloading := m.await(t, ready+1, "RELOADING=1")
	if m.index(reloading, "MONOTONIC_USEC=") != reloading {
		t.Error("RELOADING=1 without the time, which systemd 253 wants in the same message")
	}
	m.await(t, reloading+1, "READY=1")
	fmt.Fprint(c, "get tokens\r\n")
	const want = "VALUE tokens 0 36"
	answer := make([]byte, len(want))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != want {
		t.Errorf("ready again before the file was read: %q, %v", answer, err)
	}

	if err := os.Rename(sock, sock+" away"); err != nil {
		t.Fatal(err)
	}
	await(t, "the daemon does not answer itself", func() bool { return p.Entry("no watchdog signal for systemd") != nil })
	await(t, "signs of life cease", func() bool {
		n := m.count()
		return n > 3 && m.index(n-3, "WATCHDOG=1") < 0
	})
	p.Process.Signal(syscall.SIGTERM)
	m.await(t, 0, "STOPPING=1")
	<-p.Ended()
}

// TestProcessTellsSystemdWhatItWaitsFor: it is not ready without a worker id, and needs no sign of life for
// that.
func TestProcessTellsSystemdWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	p := m.start(t, []string{"WATCHDOG_USEC=300000"}, "-redis", "redis://127.0.0.1:1")
	first := m.await(t, 0, "STATUS=no worker id yet; lane 0: acquiring for ")
	later := m.await(t, first+1, "STATUS=")
	if m.index(0, "READY=1") >= 0 || m.index(0, "WATCHDOG=1") >= 0 || p.Entry("no watchdog signal for systemd") != nil {
		t.Error("it says that it is ready, or that it lives, before it serves")
	}
	p.Process.Signal(syscall.SIGTERM)
	if stopping := m.await(t, later, "STOPPING=1"); stopping <= first {
		t.Error("it stops before it was told to")
	}
	<-p.Ended()
}

// TestProcessTellsNobody: a watchdog that is meant for another process, such as a shell that
// started this one, is not this one's.
func TestProcessTellsNobody(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	p := m.start(t, []string{"WATCHDOG_USEC=10000", "WATCHDOG_PID=1"}, "-worker-id", "1")
	m.await(t, 0, "READY=1")
	p.end(t, syscall.SIGTERM)
	if m.index(0, "WATCHDOG=1") >= 0 {
		t.Error("it sends signs of life for another process")
	}
}
