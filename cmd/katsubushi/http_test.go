package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/services"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// checkHealth runs healthcheck.
func checkHealth(t *testing.T, want int, args ...string) {
	t.Helper()
	checkHealthIn(t, environment(), want, args...)
}

// checkHealthIn runs healthcheck in an environment. It gives up after three seconds, which a busy machine may need for
// one answer; so a check that took as long is repeated, twice at most. One that fails at once has failed.
func checkHealthIn(t *testing.T, env variables, want int, args ...string) {
	t.Helper()
	for left := 2; ; left-- {
		var stderr bytes.Buffer
		began := time.Now()
		code := run(append([]string{"healthcheck"}, args...), env, nil, &stderr)
		if code == want {
			return
		}
		if want != exitOK || left == 0 || time.Since(began) < healthcheckTimeout {
			t.Errorf("healthcheck %q: %d, want %d: %s", args, code, want, &stderr)
			return
		}
		t.Logf("healthcheck %q: %s", args, &stderr)
	}
}

// TestProcessLimitsApart: silent connections of the HTTP port take none of the memcached port's,
// and a memcached port that is full keeps neither /healthz nor healthcheck from an answer.
func TestProcessLimitsApart(t *testing.T) {
	t.Parallel()
	const limit = 100
	if (&services.Config{}).HTTPConnections(limit) >= 116 {
		t.Fatal("the silent connections do not fill the HTTP port")
	}
	httpPort := freePort(t)
	p := start(t, "-worker-id", "1", "-max-connections", strconv.Itoa(limit), "-loops", "1", "-http-port", httpPort)
	_, port, _ := net.SplitHostPort(p.Addr())
	healthy := func() {
		t.Helper()
		resp, err := http.Get("http://" + p.HTTP() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("/healthz: %s", resp.Status)
		}
	}
	var silent []net.Conn
	for range 116 {
		c := dial(t, "tcp", p.HTTP())
		silent = append(silent, c)
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
	await(t, "an idle connection makes room", func() bool {
		status, _, _ := httpGet(httpPort, "/id")
		return status == http.StatusOK
	})
	// The longest idle, which is not the first one if the server was slow to notice that it had answered that.
	closed := func(c net.Conn) bool {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := io.Copy(io.Discard, c)
		return err == nil
	}
	// Again, because a read that a busy machine runs when its deadline is over does not look.
	await(t, "an idle connection is closed", func() bool { return slices.ContainsFunc(silent, closed) })
	for n := range limit {
		c := dial(t, "tcp", p.Addr())
		io.WriteString(c, "version\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "VERSION") {
			t.Fatalf("client %d of %d: %q %v", n, limit, line, err)
		}
	}
	if b, _ := io.ReadAll(dial(t, "tcp", p.Addr())); string(b) != "ERROR Too many open connections\r\n" {
		t.Errorf("one client more: %q", b)
	}
	healthy()
	checkHealthIn(t, environment("PORT", port), exitOK, "-bind", "127.0.0.1")
	checkHealth(t, exitOK, "-bind", "127.0.0.1", "-port", port, "-http-port", httpPort)
	checkHealth(t, exitFailure, "-bind", "127.0.0.1", "-port", port, "-ready") // a client would be refused too
	checkHealth(t, exitUsage, "-bind", "127.0.0.1", "-port", port, "extra")
}

// TestProcessHealthcheckWhereItListens: on either loopback address, on others, through TLS, also at
// the limit of connections.
func TestProcessHealthcheckWhereItListens(t *testing.T) {
	cert := filepath.Join(t.TempDir(), "cert")
	if _, err := selfsigned.Write(cert, cert+".key", 1); err != nil {
		t.Fatal(err)
	}
	encrypted := []string{"-tls-cert", cert, "-tls-key", cert + ".key", "-engine", "net"}
	for _, c := range []struct {
		name string
		bind string   // the daemon's
		ask  string   // healthcheck's -bind
		args []string // both's
	}{
		{"all addresses", "", "", nil},
		{"IPv4 alone", "0.0.0.0", "0.0.0.0", nil},
		{"the loopback address of IPv4 alone", "127.0.0.1", "", nil},
		{"the loopback address of IPv6 alone", "::1", "", nil},
		{"by name", "localhost", "localhost", nil},
		{"another address", "127.0.0.2", "127.0.0.2", nil},
		{"TLS", "127.0.0.1", "127.0.0.1", encrypted},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bind == "" || strings.Contains(c.bind, ":") {
				ln, err := net.Listen("tcp", "[::1]:0")
				if err != nil {
					t.Skip(err)
				}
				ln.Close()
			}
			p := start(t,
				append([]string{"-worker-id", "1", "-loops", "1", "-max-connections", "1", "-bind", c.bind}, c.args...)...)
			_, port, _ := net.SplitHostPort(p.Addr())
			args := append([]string{"-bind", c.ask, "-port", port}, c.args...)
			checkHealth(t, exitOK, append(args, "-ready")...)
			await(t, "the only connection is taken", func() bool { // healthcheck's may be there for a moment
				hold := dial(t, "tcp", p.Addr())
				if c.args != nil {
					hold = tls.Client(hold, &tls.Config{InsecureSkipVerify: true})
				}
				io.WriteString(hold, "version\r\n")
				line, _ := bufio.NewReader(hold).ReadString('\n')
				return strings.HasPrefix(line, "VERSION")
			})
			checkHealth(t, exitFailure, append(args, "-ready")...)
			checkHealth(t, exitOK, args...)
			p.Kill()
			checkHealth(t, exitFailure, args...)
		})
	}
}

// TestProcessHTTPBind: the HTTP port has an address of its own, and may then have the memcached
// port's number.
func TestProcessHTTPBind(t *testing.T) {
	port := freePort(t)
	p := start(t, "-worker-id", "1", "-port", port, "-http-port", port, "-http-bind", "127.0.0.2")
	if p.Addr() != "127.0.0.1:"+port || p.HTTP() != "127.0.0.2:"+port {
		t.Errorf("it listens on %s and %s", p.Addr(), p.HTTP())
	}
	p.Kill()
	checkHealth(t, exitFailure, "-bind", "127.0.0.1", "-port", port, "-http-port", port, "-http-bind", "127.0.0.2")

	// its clock has yet to come
	closed := launch(t, "-worker-id", "1", "-epoch", "2090-01-01T00:00:00Z", "-http-port", port, "-http-bind", "127.0.0.2")
	await(t, "HTTP is served", func() bool { return closed.Entry("http listening") != nil })
	checkHealth(t, exitOK, "-bind", "127.0.0.1", "-port", freePort(t), "-http-port", port, "-http-bind", "127.0.0.2")
	checkHealth(t, exitFailure, "-bind", "127.0.0.1", "-port", freePort(t), "-http-port", port)
}

// TestProcessHTTPLogin: ids are for those who log in, on whichever port; the rest is for all.
func TestProcessHTTPLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "-worker-id", "1", "-http-port", freePort(t), "-auth-file", file)
	status := func(path, password string) int {
		t.Helper()
		r, _ := http.NewRequest("GET", "http://"+p.HTTP()+path, nil)
		if password != "" {
			r.SetBasicAuth("ann", password)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for path, want := range map[string]int{"/id": 401, "/ids": 401, "/stats": 200, "/metrics": 200, "/healthz": 200,
		"/readyz": 200} {
		if got := status(path, ""); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := status("/id", "secret"); got != 200 {
		t.Errorf("with the password: %d", got)
	}
	_, port, _ := net.SplitHostPort(p.Addr())
	for _, ready := range []string{"-ready=true", "-ready=false"} {
		checkHealth(t, exitOK, ready, "-bind", "127.0.0.1", "-port", port, "-auth-file", file)
	}
	c := dial(t, "tcp", p.Addr())
	for i := range 5 {
		fmt.Fprintf(c, "set x 0 0 6\r\nann x%d\r\n", i)
	}
	if b, err := io.ReadAll(c); string(b) != strings.Repeat("CLIENT_ERROR authentication failure\r\n", 3) {
		t.Errorf("five guesses at once: %q %v", b, err)
	}
	await(t, "the log says whose logins failed", func() bool { return p.Entry("logins failed")["peer"] == "127.0.0.1" })
	if got := status("/ids", "guess"); got != 401 {
		t.Errorf("with another password: %d", got)
	}
	if got := status("/ids", "secret"); got != 200 {
		t.Errorf("with the password, after a few guesses: %d", got)
	}
}
