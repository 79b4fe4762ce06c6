package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

func TestProcessTLS(t *testing.T) {
	cert, key, roots := selfsigned.Files(t)
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
	for path, want := range map[string]string{ // it lasts a day, less what has passed
		"/stats": `"tls_certificate_days_left": 0,`, "/metrics": "\nkatsubushi_tls_certificate_left_seconds 8",
	} {
		if _, _, got := httpGet(p.HTTP(), path); !strings.Contains(got, want) {
			t.Errorf("%s: want %s in %s", path, want, got)
		}
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

	if roots, err = selfsigned.Write(cert, key, 2); err != nil {
		t.Fatal(err)
	}
	if own, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	p.Process.Signal(syscall.SIGHUP)
	await(t, "the certificate is reloaded", func() bool { return p.Entry("reloaded") != nil })
	if n := serial(roots); n != 2 {
		t.Errorf("certificate %d after the reload", n)
	}
	tempfile.Write(t, cert, "nonsense")
	p.Process.Signal(syscall.SIGHUP)
	await(t, "the bad certificate is reported", func() bool {
		return p.Entry("not reloaded, the old one stays in force") != nil
	})
	if n := serial(roots); n != 2 {
		t.Errorf("certificate %d after a bad reload", n)
	}
}
