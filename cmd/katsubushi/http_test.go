package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
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

// TestProcessHealthcheckWhereItListens: on either loopback address, on others, through TLS, also at
// the limit of connections.
func TestProcessHealthcheckWhereItListens(t *testing.T) {
	cert, key, _ := selfsigned.Files(t)
	encrypted := []string{"-tls-cert", cert, "-tls-key", key, "-engine", "net"}
	users := tempfile.Write(t, "users", "ann:secret\n")
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
		{"users", "127.0.0.1", "127.0.0.1", []string{"-auth-file", users}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bind == "" || strings.Contains(c.bind, ":") {
				ln, err := net.Listen("tcp", "[::1]:0")
				if err != nil {
					t.Skip(err)
				}
				ln.Close()
			}
			web := []string{"-http-port", freePort(t), "-http-bind", "127.0.0.1"}
			p := start(t, slices.Concat([]string{"-worker-id", "1", "-loops", "1", "-max-connections", "1", "-bind", c.bind,
				"-unknown-keys", "refuse"},
				web, c.args)...)
			_, port, _ := net.SplitHostPort(p.Addr())
			args := append([]string{"-bind", c.ask, "-port", port}, c.args...)
			checkHealth(t, exitOK, append(args, "-ready")...)
			await(t, "the only connection is taken", func() bool { // healthcheck's may be there for a moment
				hold := dial(t, "tcp", p.Addr())
				if slices.Contains(c.args, "-tls-cert") {
					hold = tls.Client(hold, &tls.Config{InsecureSkipVerify: true})
				}
				io.WriteString(hold, "version\r\n")
				line, _ := bufio.NewReader(hold).ReadString('\n')
				return strings.HasPrefix(line, "VERSION") || strings.HasPrefix(line, "CLIENT_ERROR unauthenticated")
			})
			checkHealth(t, exitFailure, append(args, "-ready")...)
			checkHealth(t, exitOK, args...)
			checkHealth(t, exitOK, append(args, web...)...)
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

// httpGet asks a port of loopback, or a host and port, that may not be there yet: then the status is 0.
func httpGet(port, path string) (status int, header http.Header, body string) {
	if !strings.Contains(port, ":") {
		port = "127.0.0.1:" + port
	}
	resp, err := http.Get("http://" + port + path)
	if err != nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

// awaitReadyz waits until /readyz says this. Its lines about lanes come after the sentence that
// clients get.
func awaitReadyz(t *testing.T, port string, status int, sentence, lanes string) {
	t.Helper()
	await(t, fmt.Sprintf("/readyz is %d %q %q", status, sentence, lanes), func() bool {
		s, header, body := httpGet(port, "/readyz")
		first, below, _ := strings.Cut(body, "\n")
		if s == http.StatusServiceUnavailable && header.Get("Retry-After") != "1" {
			t.Fatalf("Retry-After: %q", header.Get("Retry-After"))
		}
		return s == status && strings.HasPrefix(first, sentence) && strings.Contains(below, lanes)
	})
}
