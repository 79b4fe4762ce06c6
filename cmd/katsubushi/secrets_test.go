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
	p := start(t, "-worker-id", "1", "-engine", engine, "-tls-cert", cert, "-tls-key", key,
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
