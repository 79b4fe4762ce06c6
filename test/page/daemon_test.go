package page

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// A daemon is a katsubushi that runs.
type daemon struct {
	cmd       *exec.Cmd
	url       string // of the status page
	memcached string // host:port
}

// freePort returns a port of the loopback address that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// process starts a program that is ended with the test, and shows what it wrote if the test failed.
func process(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(name), out.String())
		}
	})
	return cmd
}

// binary is the daemon that make built.
func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/katsubushi")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatal("make build first: ", err)
	}
	return path
}

// start starts a daemon and waits until it issues ids.
func start(t *testing.T, args ...string) *daemon {
	t.Helper()
	return startAt(t, freePort(t), freePort(t), args...)
}

// startAt starts a daemon on these ports.
func startAt(t *testing.T, port, web string, args ...string) *daemon {
	t.Helper()
	d := &daemon{url: "http://127.0.0.1:" + web + "/", memcached: "127.0.0.1:" + port}
	d.cmd = process(t, binary(t), append(args, "-claim=off", "-bind", "127.0.0.1", "-port", port, "-http-port", web)...)
	await(t, "the daemon issues ids", func() bool {
		answer, err := http.Get(d.url + "readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	await(t, "the memcached port is open", func() bool {
		c, err := net.Dial("tcp", d.memcached)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return d
}

// await waits until is returns true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so: ", what)
		}
	}
}

// id asks the daemon for an id.
func (d *daemon) id(t *testing.T, key string) string {
	t.Helper()
	c, err := net.Dial("tcp", d.memcached)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "get %s\r\n", key)
	r := bufio.NewReader(c)
	r.ReadString('\n')
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// ask lets connections ask for ids until the test ends, in waves, so that there is something to see.
func (d *daemon) ask(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	for i := range 23 {
		c, err := net.Dial("tcp", d.memcached)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer c.Close()
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(20+(n/50+7*i)%60) * time.Millisecond):
				}
				io.WriteString(c, "get a b c\r\nget orders\r\nget sessions\r\nversion\r\n")
				c.SetReadDeadline(time.Now().Add(patience))
				for r, line := bufio.NewReader(c), ""; !strings.HasPrefix(line, "VERSION"); {
					var err error
					if line, err = r.ReadString('\n'); err != nil {
						return
					}
				}
			}
		}()
	}
}

// text returns the page as plain text.
func (d *daemon) text(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
