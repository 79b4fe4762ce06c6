package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

func TestProcessTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	renew := func(serial int64) *x509.CertPool {
		roots, err := selfsigned.Write(cert, key, serial)
		if err != nil {
			t.Fatal(err)
		}
		return roots
	}
	roots := renew(1)
	engine := "auto"
	if runtime.GOOS == "linux" {
		engine = "epoll" // which has no port to serve: the only one is encrypted
	}
	p := start(t, "-worker-id", "1", "-http-port", freePort(t), "-engine", engine, "-tls-cert", cert, "-tls-key", key,
		"-tls-client-ca", cert)
	_, port, _ := net.SplitHostPort(p.Addr())
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	serial := func(roots *x509.CertPool) int64 {
		c, err := tls.Dial("tcp", p.Addr(), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "get id\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "VALUE id 0 ") {
			t.Fatalf("%q %v", line, err)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(roots); n != 1 {
		t.Errorf("certificate %d", n)
	}
	if s, _ := http.Get("http://" + p.HTTP() + "/stats"); s == nil {
		t.Error("no statistics")
	} else if b, _ := io.ReadAll(s.Body); !strings.Contains(string(b), `"tls_certificate_days_left": 0,`) ||
		!strings.Contains(string(b), `"engine": "net"`) {
		// it lasts a day, less what has passed
		t.Errorf("%s", b)
	}
	if s, _ := http.Get("http://" + p.HTTP() + "/metrics"); s == nil {
		t.Error("no metrics")
	} else if b, _ := io.ReadAll(s.Body); !strings.Contains(string(b), "\nkatsubushi_tls_certificate_left_seconds 8") {
		// 86,400 s, less what has passed
		t.Errorf("%s", b)
	}
	p.Says(t, "the certificate expires soon")
	p.Says(t, "it is the one that encrypts")
	if c, err := tls.Dial("tcp", p.Addr(), &tls.Config{RootCAs: roots}); err == nil {
		io.WriteString(c, "get id\r\n")
		if b, _ := io.ReadAll(c); len(b) != 0 {
			t.Errorf("a client without a certificate got %q", b)
		}
	}
	plain := dial(t, "tcp", p.Addr())
	io.WriteString(plain, "get id\r\n")
	if b, _ := io.ReadAll(plain); strings.Contains(string(b), "VALUE") {
		t.Errorf("an unencrypted client got %q", b)
	}
	checkHealth(t, exitOK, "-ready", "-bind", "127.0.0.1", "-port", port, "-tls-cert", cert, "-tls-key", key,
		"-tls-client-ca", cert)

	roots = renew(2)
	if own, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	p.Process.Signal(syscall.SIGHUP)
	await(t, "the certificate is reloaded", func() bool { return p.Entry("reloaded") != nil })
	if n := serial(roots); n != 2 {
		t.Errorf("certificate %d after the reload", n)
	}
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Process.Signal(syscall.SIGHUP)
	await(t, "the bad certificate is reported", func() bool {
		return p.Entry("not reloaded, the old one stays in force") != nil
	})
	if n := serial(roots); n != 2 {
		t.Errorf("certificate %d after a bad reload", n)
	}
}

// TestProcessRedisPasswordFile: the daemon, lease and run log in with what is in the file, and tell
// nobody.
func TestProcessRedisPasswordFile(t *testing.T) {
	t.Parallel()
	const password = "hush-7f3a"
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "katsubushi", "on", ">"+password, "~*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"-redis", "redis://katsubushi@" + server.Addr() + "/0", "-redis-password-file", file},
		shortLease...)
	told := map[string]string{}
	command := func(what string, args ...string) {
		t.Helper()
		told[what] = printed(t, args...)
	}
	command("lease init", append([]string{"lease", "init", "-how", "new"}, flags...)...)
	p := start(t, append(flags, "-http-port", freePort(t))...)
	command("lease list", append([]string{"lease", "list"}, flags...)...)
	command("run", append(append([]string{"run"}, flags...), "-log-level", "debug", "--", "true")...)
	for _, path := range []string{"/stats", "/metrics", "/readyz"} {
		r, err := http.Get("http://" + p.HTTP() + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		told[path] = string(b)
	}
	wrong := password + "-old"
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Do("CLIENT", "KILL", "USER", "katsubushi")
	await(t, "the daemon is not let in", func() bool { return strings.Contains(p.Logged(), "WRONGPASS") })
	out, err := exec.Command(binary, append([]string{"lease", "list"}, flags...)...).CombinedOutput()
	if told["lease list, refused"] = string(out); err == nil {
		t.Error("lease list with a wrong password")
	}
	told["log"] = p.Logged()
	for _, of := range []string{"cmdline", "environ"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Process.Pid, of)) // where there is such a thing
		told[of] = string(b)
	}
	for what, text := range told {
		if strings.Contains(text, password) {
			t.Errorf("%s tells the password: %s", what, text)
		}
	}
}
