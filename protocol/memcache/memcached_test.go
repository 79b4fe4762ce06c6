package memcache

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A memcached is a real memcached, on a free port of the loopback interface.
type memcached struct{ addr string }

func startMemcached(t *testing.T, args ...string) *memcached {
	path, err := exec.LookPath("memcached")
	if err != nil {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" {
			t.Fatal(err)
		}
		t.Skip("no memcached here")
	}
	for range 10 { // until no other program takes the port first
		port := strconv.Itoa(redistest.FreePort(t))
		addr := net.JoinHostPort("127.0.0.1", port)
		cmd := exec.Command(path,
			append([]string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "1", "-m", "16", "-u", "root"}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan struct{})
		go func() {
			cmd.Wait()
			close(exited)
		}()
		if waitForPort(addr, exited) {
			t.Cleanup(func() {
				cmd.Process.Kill()
				<-exited
			})
			return &memcached{addr}
		}
		cmd.Process.Kill()
		<-exited
	}
	t.Fatal("memcached does not start")
	return nil
}

func waitForPort(addr string, exited chan struct{}) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if c, err := net.Dial("tcp4", addr); err == nil {
			c.Close()
			return true
		}
		select {
		case <-exited:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

// ask sends the input on a new connection and returns the answer, up to the match of end or the end
// of the connection.
func (m *memcached) ask(t *testing.T, in []byte, end []byte, sendsAll bool) []byte {
	c, err := net.Dial("tcp4", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.Write(in)
		if sendsAll {
			c.(*net.TCPConn).CloseWrite()
		}
	}()
	var answer []byte
	for b := make([]byte, 64<<10); ; {
		n, err := c.Read(b)
		answer = append(answer, b[:n]...)
		switch {
		case end != nil && bytes.HasSuffix(answer, end):
			return answer
		case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
			<-sent
			return append(answer, "<closed>"...)
		case err != nil:
			t.Fatalf("%.200q: %v after %.200q", in, err, answer)
		}
	}
}

// A connection to memcached, for one request after another.
type connection struct{ net.Conn }

func (m *memcached) connect(t *testing.T) connection {
	c, err := net.Dial("tcp4", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(60 * time.Second))
	t.Cleanup(func() { c.Close() })
	return connection{c}
}

// frame sends a request and returns the next binary response.
func (c connection) frame(t *testing.T, request []byte) []byte {
	t.Helper()
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, headerLen)
	_, err := io.ReadFull(c, b)
	if err == nil {
		body := make([]byte, parseHeader(b).body)
		_, err = io.ReadFull(c, body)
		b = append(b, body...)
	}
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	return b
}
