package redistest

import (
	"crypto/x509"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// A TLSServer is a Server that speaks nothing but TLS.
type TLSServer struct {
	*Server
	Addr      string // of TLS
	Cert, Key string // PEM files of the server, and of the clients that it lets in; Cert is the authority too
	Roots     *x509.CertPool
}

// StartTLS starts a redis-server with TLS that demands a certificate of its clients, unless args say
// otherwise. It waits until the server listens.
func StartTLS(t testing.TB, args ...string) TLSServer {
	t.Helper()
	dir, port := t.TempDir(), strconv.Itoa(FreePort(t))
	s := TLSServer{Addr: "127.0.0.1:" + port, Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	var err error
	if s.Roots, err = selfsigned.Write(s.Cert, s.Key, 1); err != nil {
		t.Fatal(err)
	}
	s.Server = Start(t, append([]string{"--port", "0", "--tls-port", port, "--tls-cert-file", s.Cert, "--tls-key-file",
		s.Key, "--tls-ca-cert-file", s.Cert}, args...)...)
	Until(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// Query names the PEM files as URLs do.
func (s TLSServer) Query() string { return "ca=" + s.Cert + "&cert=" + s.Cert + "&key=" + s.Key }
