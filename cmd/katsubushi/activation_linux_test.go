package main

import (
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// passing returns what starts a program as systemd does: with sockets, from descriptor 3 on, and their
// names. The shell knows the number of the process before it becomes the program.
func passing(t *testing.T, program string, sockets ...any) *exec.Cmd {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program)
	c.Env = append(os.Environ(), "LISTEN_FDS="+string(rune('0'+len(sockets))))
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
