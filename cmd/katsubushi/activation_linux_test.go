package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// passing returns what starts a program as systemd does: with sockets, from descriptor 3 on, and their
// names. The shell knows the number of the process before it becomes the program.
func passing(t *testing.T, program, names string, sockets ...any) *exec.Cmd {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program)
	c.Env = append(os.Environ(), "LISTEN_FDS="+string(rune('0'+len(sockets))), "LISTEN_FDNAMES="+names)
	for _, s := range sockets {
		fd, err := server.Descriptor(s)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "socket")
		t.Cleanup(func() { f.Close() })
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	return c
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// TestProcessSocketsOfASupervisor: the daemon serves the sockets that it gets, with the numbers that they
// have, and a client that connects while the daemon is away waits for the next one.
func TestProcessSocketsOfASupervisor(t *testing.T) {
	t.Parallel()
	port, other := listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
	args := append(onDisk(t), "-worker-id", "36", "-log-format", "json", "-claim", "off", "-port", "11212")
	p := runs(t, passing(t, binary, "port:http-port", port, other), args...)
	p.WaitListening(t)
	if p.Addr() != port.Addr().String() || p.HTTP() != other.Addr().String() {
		t.Errorf("it listens on %s and %s, not on %s and %s", p.Addr(), p.HTTP(), port.Addr(), other.Addr())
	}
	first := newAsker(t, "tcp", p.Addr())
	first.id(t)
	p.end(t, syscall.SIGTERM)
	waiting := newAsker(t, "tcp", p.Addr()) // into the backlog
	waiting.last = first.last
	p = runs(t, passing(t, binary, "port", port), args...)
	waiting.id(t)

	// A unix socket's file is the supervisor's.
	path := filepath.Join(t.TempDir(), "s")
	sock := listen(t, "unix", path)
	p.end(t, syscall.SIGTERM)
	p = runs(t, passing(t, binary, "sock", sock), args...)
	p.WaitListening(t)
	newAsker(t, "unix", path).id(t)
	p.end(t, syscall.SIGTERM)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the daemon removed a socket that is not its own: %v", err)
	}
}

// TestProcessSocketsOfASupervisorStay: the successors of a daemon know that its sockets are a supervisor's.
// They take ports that the settings do not name, and leave the file of the unix socket where it is.
func TestProcessSocketsOfASupervisorStay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	sock, web := listen(t, "unix", path), listen(t, "tcp", "127.0.0.1:0")
	u := startUpgradableBy(t, func(program string) *exec.Cmd {
		return passing(t, program, "sock:http-port", sock, web)
	}, append(inMemory(t), "-worker-id", "39")...)
	u.awaitControl(t)
	ids := newAsker(t, "unix", path)
	for range 2 {
		u.succeed(t)
		ids.id(t)
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Get("http://" + web.Addr().String() + "/id"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	syscall.Kill(u.now, syscall.SIGTERM)
	await(t, "the daemon ends", func() bool { return gone(u.now) })
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the daemon removed a socket that is not its own: %v", err)
	}
}

// TestProcessSocketsRefused: what is passed is checked, and refused with a sentence and exit code 2.
func TestProcessSocketsRefused(t *testing.T) {
	t.Parallel()
	tcp := listen(t, "tcp", "127.0.0.1:0")
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	client := dial(t, "tcp", tcp.Addr().String())
	pipe, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for _, c := range []struct {
		names, says string
		socket      any
	}{
		{"katsubushi.socket", "FileDescriptorName= must be one of", tcp},
		{"sock", "there is no such port", tcp},
		{"port", "it is a UDP socket, whose name must be udp-port", udp},
		{"port", "it does not listen", client},
		{"port", "is not a socket", pipe},
		{"", "FileDescriptorName= must be one of", tcp},
		{"port:http-port", "1 sockets were passed with 2 names", tcp},
	} {
		p := runs(t, passing(t, binary, c.names, c.socket), "-worker-id", "36", "-state-dir", "none", "-claim", "off")
		<-p.Ended()
		if code := p.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(p.Logged(), c.says) {
			t.Errorf("names %q: exit code %d, %q, which lacks %q", c.names, code, p.Logged(), c.says)
		}
	}
}
