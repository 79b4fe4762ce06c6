//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// isExample reports whether a set-up is one of examples/.
func (s *setup) isExample() bool { return strings.HasPrefix(s.name, "examples/") }

// printed is what an example printed, in the form that the checker reads.
func (s *setup) printed(out string) string {
	if !s.isExample() {
		return out
	}
	return "get " + strings.Join(strings.Fields(out), "\nget ") + "\n"
}

// exampleEnv is what only examples read.
func (r *runner) exampleEnv(port int) []string {
	return []string{"IDS=" + net.JoinHostPort(host, strconv.Itoa(port)), "EXAMPLES=" + filepath.Join(r.root, "examples")}
}

// exampleTries is how often an example may say that there is no id: on a machine that stands still,
// its time-outs pass.
const exampleTries = 5

// exemplify runs an example; then with connections that break; then against a port where nobody
// listens: it must end by itself and say that there is no id.
func (r *runner) exemplify(ctx context.Context, s *setup, d *daemon) (text string, err error) {
	cut, err := newCutter(d.port)
	if err != nil {
		return "", err
	}
	defer cut.Close()
	for _, port := range []int{d.port, cut.Addr().(*net.TCPAddr).Port} {
		for range exampleTries {
			if text, err = r.exercise(ctx, s, d, port); err == nil || !strings.Contains(err.Error(), "no id") {
				break
			}
		}
		if err != nil {
			return "", err
		}
	}
	port, release, err := closedPort()
	if err != nil {
		return "", err
	}
	defer release()
	out, err := r.exercise(ctx, s, d, port)
	if err == nil {
		return "", fmt.Errorf("without a daemon: it ends well and says %q", out)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "no id") {
		return "", fmt.Errorf("without a daemon: %w", err)
	}
	return text + ", also with broken connections, and an error without a daemon", nil
}

// answersBeforeCut is how many answers a connection through a cutter gets. Some clients ask for the
// version first.
const answersBeforeCut = 3

// newCutter returns a listener whose connections lead to a daemon and break after some answers, as
// they do when a daemon is restarted.
func newCutter(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go cut(client, port)
		}
	}()
	return l, nil
}

func cut(client net.Conn, port int) {
	defer client.Close()
	daemon, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return
	}
	defer daemon.Close()
	go io.Copy(daemon, client) // ends when both are closed
	buffer := make([]byte, 64<<10)
	for range answersBeforeCut {
		n, err := daemon.Read(buffer)
		if err != nil {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// closedPort returns a port that refuses connections, and that nobody else gets until it is released.
func closedPort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	release = func() { syscall.Close(fd) }
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		var bound syscall.Sockaddr
		if bound, err = syscall.Getsockname(fd); err == nil {
			return bound.(*syscall.SockaddrInet4).Port, release, nil
		}
	}
	release()
	return 0, nil, err
}
